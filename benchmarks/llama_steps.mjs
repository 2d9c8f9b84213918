// Steps of a decoder in llama.cpp, by the package node-llama-cpp: reads lines from the standard
// input and answers each with a line of JSON.
//
//     node llama_steps.mjs MODEL.gguf < lines
//
//     "probabilities TOKEN"  what follows that token, as the first of all: [[token, p], ...]
//     "step TOKEN"           seconds of processor time of a step

import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const require = createRequire(`${process.cwd()}/`);
const entry = pathToFileURL(require.resolve("node-llama-cpp"));
const {getLlama} = await import(entry);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: 1});
const model = await llama.loadModel({modelPath: process.argv[2], useMmap: true});
const context = await model.createContext({contextSize: 512, threads: 1, flashAttention: false});
const sequence = context.getSequence();

const greedy = {temperature: 0};

for await (const line of createInterface({input: process.stdin})) {
    const [command, text] = line.split(" ");
    const token = Number(text);
    if (command === "step") {
        const before = process.cpuUsage();
        await sequence.controlledEvaluate([[token, {generateNext: {token: true, options: greedy}}]]);
        const spent = process.cpuUsage(before);
        console.log(JSON.stringify((spent.user + spent.system) / 1e6));
    } else {
        const next = {generateNext: {probabilities: true}};
        const [found] = await sequence.controlledEvaluate([[token, next]]);
        console.log(JSON.stringify([...found.next.probabilities]));
    }
}
await llama.dispose();
