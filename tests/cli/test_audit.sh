# whet audit: what is printed and kept, and what is refused.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "a model is needed" '' '' "whet audit: missing MODEL; usage: whet audit [OPTION]... MODEL.gguf\n" audit
refuses "but only one" '' '' "whet audit: two models given: 'a.gguf' and 'b.gguf'\n" audit -m a.gguf b.gguf
refuses "a file that is not there" '' '' 'whet audit: /nowhere.gguf: no such file\n' audit /nowhere.gguf
refuses "a mass of 1 makes no sense" '' '' "whet audit: --mass: 1 is out of range (above 0, below 1)\n" audit x.gguf --mass 1
refuses "-m needs a value" '' '' "whet audit: option '--model' needs a value: --model MODEL\n" audit -m
printf 'a model' >"$SCRATCH/kept.gguf"
refuses "results in the place of the model" '' '' "whet audit: $SCRATCH/kept.gguf: is an input and would be overwritten; choose another output file\n" \
    audit "$SCRATCH/kept.gguf" --csv "$SCRATCH/kept.gguf"
check "which stays" [ "$(cat "$SCRATCH/kept.gguf")" = 'a model' ]
printf 'not a model' >"$SCRATCH/text.gguf"
refuses "a file that is no model" '' '' "whet audit: $SCRATCH/text.gguf: not a GGUF model\n" audit "$SCRATCH/text.gguf"
: >"$SCRATCH/empty.gguf"
whet_given '' audit "$SCRATCH/empty.gguf"
check "an empty file is refused" [ "$status" -eq 2 ]
# version 3, no tensors, one key: general.architecture = "mamba"
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\5\0\0\0\0\0\0\0mamba' >"$SCRATCH/mamba.gguf"
refuses "an architecture that is not known" '' '' \
    'whet audit: unsupported architecture "mamba"; supported: llama, qwen2, qwen3, gemma, gemma2 and gemma3\n' audit "$SCRATCH/mamba.gguf"

# A table for those who did not write it: each column has its explanation, and a terminal its width.
explains_itself() { # option ...
    "$WHET_BIN" audit "$SCRATCH/tiny.gguf" --quiet "$@" >"$SCRATCH/out" || return 1
    awk '
        length > 100 { print "too wide: " $0; bad = 1 }
        /^layer / { n += split($0, titles, /  +/); for (i in titles) if (titles[i] !~ /^(layer|head)$/) wanted[titles[i]] }
        /^  / { explained = explained substr($0, 1, 18) }
        END {
            for (title in wanted) {
                sub(/ head$/, "", title)
                if (!index(explained, title)) { print "unexplained: " title; bad = 1 }
            }
            exit bad || n < 6
        }' "$SCRATCH/out"
}
if "$WHET_BIN" lm train --layers 2 --width 16 --heads 2 --batch 1 --steps 1 --quiet --out "$SCRATCH/run" >/dev/null 2>"$SCRATCH/err" &&
    "$WHET_BIN" lm export "$SCRATCH/run" "$SCRATCH/tiny.gguf" >/dev/null; then
    check "the table of layers explains itself" explains_itself
    check "so does that of heads" explains_itself --heads
    check "and that of a layer's" explains_itself --layer 1
else
    skip "the tables explain themselves" "needs libopenblas0"
fi

model=${WHET_MODELS:-}/stories260K-f32.gguf
if [ -z "${WHET_MODELS:-}" ]; then
    skip "a model is audited" "WHET_MODELS names no folder of models"
    finish
fi
whet_given '' audit -m "$model" --json "$SCRATCH/audit.json" --csv "$SCRATCH/audit.csv" --quiet
check "a model is audited" [ "$status" -eq 0 ]
check "without a word on standard error" [ ! -s "$SCRATCH/err" ]
check "its shape is printed" grep -q '^llama, stories260K, 5 layers of 8 heads on 4, 8 dimensions each, trained for 512 tokens$' "$SCRATCH/out"
check "the heads that disperse first are ranked" grep -q '^The heads that must disperse first' "$SCRATCH/out"
check "every head is in the CSV" [ "$(wc -l <"$SCRATCH/audit.csv")" -eq 41 ]
if have jq; then
    check "and in the JSON" [ "$(jq '.heads | length' "$SCRATCH/audit.json")" -eq 40 ]
    check "no tighter bound is above the other, none below what is reached" \
        [ "$(jq '[.heads[] | select(.spread_tighter > .spread_bound or .spread_attained > .spread_tighter)] | length' "$SCRATCH/audit.json")" -eq 0 ]
else
    skip "and in the JSON" "needs jq"
fi
whet_given '' audit "$model" --heads --quiet
check "a line for each head is printed on demand" [ "$(grep -c '10^' "$SCRATCH/out")" -ge 40 ]
whet_given '' audit "$model" --layer 2 --quiet
check "or for the heads of a layer" [ "$(grep -c '^2 ' "$SCRATCH/out")" -eq 8 ]
refuses "a layer that is not there" '' '' 'whet audit: --layer: 5 is out of range; the model has layers 0 to 4\n' audit --quiet "$model" --layer 5
head -c 500000 "$model" >"$SCRATCH/cut.gguf"
whet_given '' audit "$SCRATCH/cut.gguf" --json "$SCRATCH/cut.json"
check "a model that was cut off is refused" [ "$status" -eq 2 ]
check "with a word on why" grep -q 'truncated file: tensor .* needs data up to .* bytes, but there are' "$SCRATCH/err"
check "and nothing is written" [ ! -e "$SCRATCH/cut.json" ]
whet_given '' audit "$model" --quiet --json /dev/null/x
check "a file that cannot be written is an error" [ "$status" -eq 1 ]
finish
