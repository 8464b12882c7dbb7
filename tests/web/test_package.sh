#!/usr/bin/env bash
# The npm package: its own tests, and an archive that is installed into an empty folder, without a network, and used.
. "${WHET_SOURCE_DIR:?}/tests/web/wasm.sh"
build_wasm "the npm package works" whet
check "whet.wasm has at most 300 kB" [ "$(stat -c %s build/wasm/whet.wasm)" -le 300000 ]
cp -r web/package "$SCRATCH/package"
cp build/wasm/whet.wasm "$SCRATCH/package/"
cd "$SCRATCH/package" || exit 1
check "its tests pass" node --test test/
check "its version is the library's" grep -q "\"version\": \"$("$WHET_BIN" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)\"" package.json

if ! command -v npm >/dev/null; then
    skip "an archive is packed, installed and used" "needs npm"
    finish
fi
mkdir "$SCRATCH/user"
check "an archive is packed" npm pack --silent --pack-destination "$SCRATCH/user"
cd "$SCRATCH/user" || exit 1
echo '{"type": "module", "private": true}' >package.json
check "it is installed without a network" npm install --offline --silent --no-audit --no-fund ./whet-*.tgz
cat >use.mjs <<'SCRIPT'
import { softmax, attention, policies } from "whet";
import { instantiate } from "whet/library";
const row = softmax(Float32Array.of(1, 2, 3, 4), "adaptive");
const out = attention({ q: row, k: row, v: row, queries: 1, keys: 1, headDim: 4 });
console.log([...row].map((x) => x.toPrecision(4)).join(" "), out.length, policies.length > 15, typeof instantiate);
SCRIPT
check "and used" [ "$(node use.mjs)" = "$(echo 1 2 3 4 | "$WHET_BIN" softmax --policy adaptive --precision 4) 4 true function" ]
check "the example runs" eval 'node node_modules/whet/example.mjs | grep -q "^65536 items, adaptive:hold: weight"'

# The README's example as it stands, with something for its q, k and v.
{
    echo 'const q = new Float32Array(512).fill(1), k = new Float32Array(8 * 512 * 64).fill(1), v = k;'
    sed -n '/^```js$/,/^```$/{/^```/d;p}' node_modules/whet/README.md
} >readme.mjs
check "the README's example runs" eval 'grep -q softmax readme.mjs && node readme.mjs'
tsc=$WHET_SOURCE_DIR/build/typescript/node_modules/.bin/tsc
[ -x "$tsc" ] || tsc=$(command -v tsc)
if [ -n "$tsc" ]; then
    cat >use.ts <<'SCRIPT'
import { softmax, attention, entropy, policies, policy, version, WhetError, type Stats } from "whet";
import { instantiate, type Whet } from "whet/library";
const row: Float32Array = softmax(Float32Array.of(1, 2, 3), "adaptive", { rows: 1 });
const { weights, stats }: { weights: Float32Array; stats: Stats[] } = softmax(row, { policy: "adaptive", stats: true });
const out: Float32Array = attention({ q: row, k: row, v: row, queries: 1, keys: 1, headDim: 3, policy: ["softmax"] });
const beta: number = entropy(row)[0].beta + policy("ssmax:1").parameters.s;
export const load = (bytes: Uint8Array): Promise<Whet> => instantiate(bytes);
export default [weights, stats, out, beta, policies[0].syntax, version, new Error() instanceof WhetError];
SCRIPT
    echo 'import { softmax } from "whet"; export const wrong: string = softmax(Float32Array.of(1), { rows: "1" });' >wrong.ts
    types=("$tsc" --noEmit --strict --module nodenext --target es2022 --lib "es2022,dom")
    check "types are right" "${types[@]}" use.ts
    check "and wrong ones are found" eval '! "${types[@]}" wrong.ts >/dev/null'
else
    skip "types are right" "needs TypeScript (make setup-all)"
fi
finish
