// onnxruntime for peers.py: a process that loads models and runs them on request, one JSON object per line in and out.
// Inputs come in files; outputs go to memory allocated before the clock starts. A model runs on one thread.
//
//   {"do": "load", "model": path, "feeds": [{name, type, dims, file}], "fetches": [{name, dims, shared}]}
//                                                 -> {"id": number}
//   {"do": "run", "id": number}                   -> {"seconds": ...}
//   {"do": "store", "id": number, "output": name, "file": path}
//   {"do": "forget", "id": number}

'use strict';

const fs = require('fs');
const readline = require('readline');

const answer = (object) => fs.writeSync(1, JSON.stringify(object) + '\n');

let ort;
try {
    ort = require('onnxruntime-node');
} catch (error) {
    answer({error: 'cannot find the package onnxruntime-node'});
    process.exit(0);
}

const arrays = {float32: Float32Array, int32: Int32Array};
const models = new Map();
let last = 0;

// Files may be larger than what one read call returns.
function readNumbers(path, type, count) {
    const numbers = new arrays[type](count);
    const bytes = new Uint8Array(numbers.buffer);
    const file = fs.openSync(path, 'r');
    for (let done = 0; done < bytes.length;) {
        const step = Math.min(bytes.length - done, 1 << 28);
        const got = fs.readSync(file, bytes, done, step, done);
        if (got === 0) throw new Error(`${path} is too short`);
        done += got;
    }
    fs.closeSync(file);
    return numbers;
}

const product = (dims) => dims.reduce((a, b) => a * b, 1);

async function load({model, feeds, fetches}) {
    const inputs = {};
    for (const feed of feeds)
        inputs[feed.name] =
            new ort.Tensor(feed.type, readNumbers(feed.file, feed.type, product(feed.dims)), feed.dims);
    const outputs = {};
    for (const {name, dims, shared} of fetches)
        outputs[name] = shared ? inputs[shared] : new ort.Tensor('float32', new Float32Array(product(dims)), dims);
    const session = await ort.InferenceSession.create(model, {
        executionProviders: ['cpu'],
        executionMode: 'sequential',
        graphOptimizationLevel: 'all',
        intraOpNumThreads: 1,
        interOpNumThreads: 1,
        logSeverityLevel: 4,
    });
    models.set(++last, {session, inputs, outputs});
    return {id: last};
}

async function run({id}) {
    const {session, inputs, outputs} = models.get(id);
    const start = process.hrtime.bigint();
    await session.run(inputs, outputs);
    return {seconds: Number(process.hrtime.bigint() - start) * 1e-9};
}

async function store({id, output, file}) {
    const numbers = models.get(id).outputs[output].data;
    fs.writeFileSync(file, new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength));
    return {};
}

async function forget({id}) {
    await models.get(id).session.release();
    models.delete(id);
    return {};
}

const actions = {load, run, store, forget};

async function main() {
    answer({version: ort.env.versions.node || ort.env.versions.common});
    for await (const line of readline.createInterface({input: process.stdin})) {
        const question = JSON.parse(line);
        try {
            answer(await actions[question.do](question));
        } catch (error) {
            answer({error: String(error.message || error)});
        }
    }
}

main();
