// The package's functions, over the module beside this file: read from disk in Node, fetched in a browser.
import { instantiate, WhetError } from "./library.js";

const address = new URL("./whet.wasm", import.meta.url);

async function readModule() {
    if (address.protocol !== "file:") return (await fetch(address)).arrayBuffer();
    const { readFile } = await import("node:fs/promises");
    return readFile(address);
}

export const { softmax, entropy, attention, policy, policies, version, isa } = await instantiate(await readModule());
export { WhetError };
