// Runs a model `model` of one input and one output from its module:
// node wasm_host.js <module> <input file> <output file> <output bytes> <workspace bytes>
const fs = require("fs");
const [file, inputFile, outputFile, outputBytes, workspaceBytes] = process.argv.slice(2);
const { memory, model_allocate, model_create, model_run, model_last_error, model_self_test } =
  new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(file)), {}).exports;

function allocate(bytes) {
  const address = model_allocate(Number(bytes)) >>> 0;
  if (address === 0) process.exit(1);
  return address;
}

function text(address) {
  const bytes = new Uint8Array(memory.buffer, address);
  return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString();
}

// A structure of 64-bit fields by their offsets, pointers included.
function structure(size, fields) {
  const address = allocate(size);
  new Uint8Array(memory.buffer, address, size).fill(0);
  const view = new DataView(memory.buffer, address, size);
  for (const [offset, value] of [[0, size], ...fields]) view.setBigUint64(offset, BigInt(value), true);
  return address;
}

const data = fs.readFileSync(inputFile);
const input = allocate(data.length);
const output = allocate(outputBytes);
const workspace = allocate(workspaceBytes);
new Uint8Array(memory.buffer, input, data.length).set(data);
const inputs = allocate(4);
const outputs = allocate(4);
new Uint32Array(memory.buffer, inputs, 1)[0] = input;
new Uint32Array(memory.buffer, outputs, 1)[0] = output;
const two = model_create(structure(96, [[8, 2]]));
if (text(model_last_error(two) >>> 0).indexOf('requires 2 threads, got 1') < 0) process.exit(2);
if (model_create(structure(95, [])) !== 0) process.exit(6);
if (text(model_last_error(0) >>> 0).indexOf('96 bytes, got 95') < 0) process.exit(7);
const context = model_create(0);
if (model_self_test !== undefined && model_self_test(context) !== 0) process.exit(5);
const small = structure(64, [[8, inputs], [16, outputs]]);
const call = structure(64, [[8, inputs], [16, outputs], [32, workspace], [40, workspaceBytes]]);
if (Number(workspaceBytes) && model_run(context, small) !== 4) process.exit(3);
if (Number(workspaceBytes)) console.log(text(model_last_error(context) >>> 0));
if (model_run(context, call) !== 0) process.exit(4);
fs.writeFileSync(outputFile, new Uint8Array(memory.buffer, output, Number(outputBytes)));
