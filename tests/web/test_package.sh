#!/usr/bin/env bash
# The npm package: its own tests, and an archive that is installed into an empty folder, without a network, and used.
. "${WHET_SOURCE_DIR:?}/tests/web/wasm.sh"
build_wasm "the npm package works" whet
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
if command -v tsc >/dev/null; then
    check "types are right" tsc --noEmit --strict --module nodenext --target es2022 --lib es2022,dom node_modules/whet/index.d.ts
else
    skip "types are right" "needs tsc (node-typescript)"
fi
finish
