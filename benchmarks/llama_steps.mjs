// Steps of a decoder in llama.cpp, by the package node-llama-cpp: reads lines from the standard
// input and answers each with a line of JSON.
//
//     node llama_steps.mjs MODEL.gguf THREADS < lines
//
//     "probabilities TOKEN"  what follows that token, as the first of all: [[token, p], ...]
//     "step TOKEN COUNT"     seconds of so many tokens more, of processor time on one thread
//     "prompt TOKEN COUNT"   the same behind none

import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const require = createRequire(`${process.cwd()}/`);
const entry = pathToFileURL(require.resolve("node-llama-cpp"));
const {getLlama} = await import(entry);
const threads = Number(process.argv[3]);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: threads});
const model = await llama.loadModel({modelPath: process.argv[2], useMmap: true});
const sizes = {contextSize: 2048, batchSize: 1024};
const context = await model.createContext({...sizes, threads, flashAttention: false});
const sequence = context.getSequence();

const greedy = {temperature: 0};

for await (const line of createInterface({input: process.stdin})) {
    const [command, ...numbers] = line.split(" ");
    const [token, count] = numbers.map(Number);
    if (command !== "probabilities") {
        if (command === "prompt") await sequence.clearHistory();
        const last = [token, {generateNext: {token: true, options: greedy}}];
        const before = process.cpuUsage(), start = performance.now();
        await sequence.controlledEvaluate([...Array(count - 1).fill(token), last]);
        const spent = process.cpuUsage(before), elapsed = performance.now() - start;
        const seconds = threads > 1 ? elapsed / 1e3 : (spent.user + spent.system) / 1e6;
        console.log(JSON.stringify(seconds));
    } else {
        const next = {generateNext: {probabilities: true}};
        const [found] = await sequence.controlledEvaluate([[token, next]]);
        console.log(JSON.stringify([...found.next.probabilities]));
    }
}
await llama.dispose();
