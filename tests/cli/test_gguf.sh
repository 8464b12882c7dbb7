# whet gguf: the list of tensors, a tensor as floats, and what is refused.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "a model is needed" '' '' "whet gguf: missing MODEL; usage: whet gguf [OPTION]... MODEL.gguf\n" gguf
refuses "but only one" '' '' "whet gguf: two models given: 'a.gguf' and 'b.gguf'\n" gguf -m a.gguf b.gguf
refuses "a file that is not there" '' '' 'whet gguf: /nowhere.gguf: no such file\n' gguf /nowhere.gguf
refuses "a device" '' '' 'whet gguf: /dev/zero: not a regular file\n' gguf /dev/zero
refuses "a tensor without a file for it" '' '' "whet gguf: --tensor needs --out FILE\n" gguf a.gguf --tensor x
refuses "a file without a tensor for it" '' '' "whet gguf: --out needs --tensor NAME\n" gguf a.gguf --out x.npy
refuses "a tensor as JSON" '' '' "whet gguf: --json cannot be combined with --tensor\n" \
    gguf a.gguf --tensor x --out x.npy --json
printf 'not a model' >"$SCRATCH/text.gguf"
refuses "a file that is no model" '' '' "whet gguf: $SCRATCH/text.gguf: not a GGUF model\n" gguf "$SCRATCH/text.gguf"
refuses "a tensor in the place of the model" '' '' \
    "whet gguf: $SCRATCH/text.gguf: is an input and would be overwritten; choose another output file\n" \
    gguf "$SCRATCH/text.gguf" --tensor x --out "$SCRATCH/text.gguf"

# Version 3, one tensor "t" of two rows of four floats, no keys; aligned to 32 bytes.
{
    printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    printf '\1\0\0\0\0\0\0\0t\2\0\0\0\4\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
} >"$SCRATCH/model.gguf"
while [ $(($(wc -c <"$SCRATCH/model.gguf") % 32)) -ne 0 ]; do printf '\0' >>"$SCRATCH/model.gguf"; done
# 1 2 3 4 and -1 0.5 0 8
printf '\0\0\200\77\0\0\0\100\0\0\100\100\0\0\200\100\0\0\200\277\0\0\0\77\0\0\0\0\0\0\0\101' >>"$SCRATCH/model.gguf"
answers "tensors are listed with the shape that numpy gives them" '' 'tensor  type   shape\nt        f32  (2, 4)\n' gguf "$SCRATCH/model.gguf"
if command -v jq >/dev/null; then
    check "and as JSON" [ "$("$WHET_BIN" gguf "$SCRATCH/model.gguf" --json | jq -c .)" = '[{"name":"t","type":"f32","readable":true,"shape":[2,4]}]' ]
else
    skip "and as JSON" "needs jq"
fi
"$WHET_BIN" gguf "$SCRATCH/model.gguf" --tensor t --out "$SCRATCH/t.npy"
check "a tensor is written as .npy, which whet softmax reads" \
    [ "$("$WHET_BIN" softmax --stats --input-format npy "$SCRATCH/t.npy" 2>/dev/null | wc -l)" -ge 2 ]
check "its data begins at a multiple of 64 bytes" [ "$(($(wc -c <"$SCRATCH/t.npy") - 32))" -eq 128 ]
check "and is that of the file" cmp -s <(tail -c 32 "$SCRATCH/t.npy") <(tail -c 32 "$SCRATCH/model.gguf")
check "standard output gets the same" cmp -s <("$WHET_BIN" gguf "$SCRATCH/model.gguf" --tensor t -o -) "$SCRATCH/t.npy"
refuses "a tensor that is not there" '' '' "whet gguf: --tensor: $SCRATCH/model.gguf has no tensor 'u'; 'whet gguf' lists them\n" \
    gguf "$SCRATCH/model.gguf" --tensor u --out "$SCRATCH/u.npy"
head -c -4 "$SCRATCH/model.gguf" >"$SCRATCH/cut.gguf"
whet_given '' gguf "$SCRATCH/cut.gguf"
check "a truncated file is refused" [ "$status" -eq 2 ]
finish
