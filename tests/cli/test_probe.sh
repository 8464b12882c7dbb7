# whet probe and whet figure 3: what is printed, drawn and kept, and what is refused.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

refuses "a model is needed" '' '' "whet probe: missing MODEL; usage: whet probe [OPTION]... MODEL.gguf\n" probe
refuses "but only one" '' '' "whet probe: two models given: 'a.gguf' and 'b.gguf'\n" probe -m a.gguf b.gguf
refuses "a file that is not there" '' '' 'whet probe: /nowhere.gguf: no such file\n' probe /nowhere.gguf
refuses "two texts" '' '' "whet probe: --prompt cannot be combined with --prompt-file\n" probe x.gguf --text a --prompt-file b
refuses "a text that is not there" '' '' 'whet probe: /nowhere: no such file\n' probe x.gguf --prompt-file /nowhere
refuses "no sequences" '' '' "whet probe: --count: 0 is out of range (1 to 1,000)\n" probe x.gguf --sequences 0
refuses "no position" '' '' "whet probe: --every: 0 is out of range (1 to 65,535)\n" probe x.gguf --every 0
refuses "no keys" '' '' "whet probe: --keys: 0 is out of range (1 to 64)\n" probe x.gguf --keys 0
refuses "too many keys" '' '' "whet probe: --keys: 65 is out of range (1 to 64)\n" probe x.gguf --keys 65
refuses "no context" '' '' "whet probe: --context: 0 is out of range (1 to 16,777,216)\n" probe x.gguf --context 0
refuses "no tokens to judge" '' '' "whet probe: --perplexity-tokens: 0 is out of range (4 to 67,108,864)\n" probe x.gguf --perplexity-tokens 0
refuses "a range that is none" '' '' "whet probe: --range: '9-' is not a range such as 5-16\n" probe x.gguf --range 9-
refuses "sizes that do not grow" '' '' "whet probe: --sizes: each must be larger than the one before\n" probe x.gguf --sizes 4,4
refuses "a policy that is not known" '' '' "whet probe: --policy: unknown policy 'adaptve'; did you mean 'adaptive'?\n" probe x.gguf --policy adaptve
for list in '' 0- , 0, 3-1 65536 1,,2 ' 1' 0-3,x; do
    refuses "layers '$list' are none" '' '' "whet probe: --layers: '$list' is not a list such as 0-3,7\n" probe x.gguf --layers "$list"
done
refuses "heads that are none" '' '' "whet probe: --heads: 'all' is not a list such as 0-3,7\n" probe x.gguf --heads all
refuses "a picture of another kind" '' '' "whet probe: it's.pdf: figures are written as .svg or .png\n" probe x.gguf --figure "it's.pdf"
refuses "two files of one name" '' '' "whet probe: $SCRATCH/x: two results cannot go to the same file\n" probe x.gguf --json "$SCRATCH/x" --csv "$SCRATCH/x"
refuses "two pictures of one name" '' '' "whet probe: ./x.svg: two results cannot go to the same file\n" probe x.gguf --figure ./x.svg --figures ./x.svg
printf 'a model' >"$SCRATCH/kept.gguf"
refuses "results in the place of the model" '' '' "whet probe: $SCRATCH/../$(basename "$SCRATCH")/kept.gguf: is an input and would be overwritten; choose another output file\n" \
    probe "$SCRATCH/kept.gguf" --json "$SCRATCH/../$(basename "$SCRATCH")/kept.gguf"
for option in --json --csv --figure --figures; do
    whet_given '' probe x.gguf $option /nowhere/x.svg
    check "where $option cannot be written is reported before anything is run" \
        [ "$status $(cat "$SCRATCH/err")" = "1 whet probe: /nowhere/x.svg: cannot write: No such file or directory" ]
done
without_gnuplot() {
    (cd "$SCRATCH" && PATH=/nowhere:/there "$WHET_BIN" figure 3 x.gguf) >"$SCRATCH/out" 2>"$SCRATCH/err"
    [ $? -eq 1 ] && grep -q 'gnuplot: cannot run: No such file or directory' "$SCRATCH/err"
}
check "without gnuplot a figure is refused before anything is run" without_gnuplot
refuses "a picture of another kind" '' '' "whet probe: x.jpg: figures are written as .svg or .png\n" probe x.gguf --figure x.jpg
refuses "figure 3 needs a model" '' '' "whet figure 3: missing MODEL; usage: whet figure 3 [OPTION]... MODEL.gguf\n" figure 3
refuses "and comes first" '' '' \
    "whet figure: figure 3 looks into a language model: 'whet figure 3 -m MODEL.gguf', the number first\n" figure --quiet 3
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$SCRATCH/empty.gguf"
no_llama() { # a copy: the program finds what its own build has fetched
    cp "$WHET_BIN" "$SCRATCH/copy"
    (cd "$SCRATCH" && PATH=/nowhere WHET_LLAMA='' ./copy probe empty.gguf --quiet) >"$SCRATCH/out" 2>"$SCRATCH/err"
    [ $? -eq 2 ] && grep -q "npm install @node-llama-cpp/linux-x64" "$SCRATCH/err"
}
if ldconfig -p 2>/dev/null | grep -q libllama; then
    skip "without a libllama the message says how to get one" "the system has one"
else
    check "without a libllama the message says how to get one" no_llama
fi

if [ -z "${WHET_MODELS:-}" ] || [ -z "${WHET_LLAMA_LIB:-}" ]; then
    skip "a model is probed" "needs WHET_MODELS and a llama.cpp"
    finish
fi
export WHET_LLAMA=$WHET_LLAMA_LIB TMPDIR=$SCRATCH/temporary
mkdir "$TMPDIR"
model=$WHET_MODELS/stories260K-f32.gguf
printf 'Once upon a time there was a little girl who loved to play. %.0s' 1 2 3 4 5 6 >"$SCRATCH/story"
whet_given '' probe -m "$model" --sizes 4,8,16 --sequences 2 --policy softmax --policy adaptive --every 1 --threads 1 \
    --perplexity "$SCRATCH/story" --json "$SCRATCH/probe.json" --csv "$SCRATCH/probe.csv" --quiet
check "a model is probed" [ "$status" -eq 0 ]
check "without a word on standard error" [ ! -s "$SCRATCH/err" ]
check "its shape is printed" grep -q '5 layers of 8 heads' "$SCRATCH/out"
sed -n '/ of 40 heads /,$p' "$SCRATCH/out" >"$SCRATCH/ranked"
check "policies are compared" grep -q 'the same after policy adaptive has acted' "$SCRATCH/out"
check "perplexity among them" grep -Eq '^adaptive +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+$' "$SCRATCH/out"
check "heads are classified" grep -Eq '^[0-9]+ of 40 heads stay sharp$' "$SCRATCH/out"
all_are_counted() { # every kind's heads: the lines of its table and the count of further ones come to what its heading says
    awk '
        / of 40 heads / { wanted += $1; cut += $1 > 6; in_list = 1; next }
        in_list && /^[0-9]+\.[0-9]/ { shown++ }
        /^\(and [0-9]+ more\)$/ { more += $2; told++ }
        /^--json has every head/ { pointed++ }
        END { exit !(wanted == 40 && shown + more == 40 && told == cut && cut > 0 && pointed == 1) }' "$SCRATCH/out"
}
check "the number of further ones is printed, and where" all_are_counted
whet_given '' probe -m "$model" --sizes 4,8,16 --sequences 1 --policy adaptive --policy softmax --threads 1 --quiet --keys 3 --gaps \
    --layers 1,3 --json "$SCRATCH/details.json" --csv "$SCRATCH/details.csv" --gaps-figure "$SCRATCH/gaps.svg"
check "details of last rows are recorded" [ "$status" -eq 0 ]
check "the beta that n calls for is printed" grep -Eq '^[0-9]+\.[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[+-][0-9.]+$' "$SCRATCH/out"
details_agree() {
    python3 - "$SCRATCH/details.json" "$SCRATCH/details.csv" <<'PYTHON'
import csv, json, math, sys
found = json.load(open(sys.argv[1]))
rows = {(r["policy"], int(r["size"]), int(r["layer"]), int(r["head"])): r for r in csv.DictReader(open(sys.argv[2]))}
for run in found["policies"]:
    for head in run["heads"]:
        at = (head["layer"], head["head"])
        for s, size in enumerate(found["sizes"]):
            keys, row = head["largest_keys"][s], rows[(run["policy"], size, *at)]
            if at[0] not in (1, 3):
                assert keys == [] and row["largest_keys"] == "", "heads that policies do not act on"
                continue
            assert 1 <= len(keys) <= 3 and all(a["weight"] >= b["weight"] for a, b in zip(keys, keys[1:]))
            assert abs(keys[0]["weight"] - head["largest_weight"][s]) < 1e-4, (at, keys, head["largest_weight"][s])
            assert all(k["position"] < found["tokens"][s] and isinstance(k["token"], str) for k in keys)
            assert row["largest_keys"] == " ".join("%d:%.6g" % (k["position"], k["weight"]) for k in keys)
            assert ("beta_called_for" in head) == (run["policy"] == "softmax") == (row["within_1"] != "")
        if run["policy"] != "softmax":
            continue
        assert head["beta_called_for"][0] == 1 and len(head["within"]) == len(found["sizes"])
        for s, counts in enumerate(head["within"]):
            assert counts == sorted(counts) and 1 <= counts[0] and counts[-1] <= found["tokens"][s]
    assert len(found["stretches"]) == 17 and all(len(h["by_position"]["entropy"]) == 16 for h in run["heads"])
PYTHON
}
check "JSON and CSV have the same weights and counts" details_agree
check "and a figure is drawn" grep -q 'layer 4' "$SCRATCH/gaps.svg"
whet_given '' probe -m "$model" --sizes 4,8,16 --sequences 2 --policy adaptive --policy softmax --every 1 --threads 1 --quiet
check "heads are ranked as softmax shows them, wherever it stands" \
    diff "$SCRATCH/ranked" <(sed -n '/ of 40 heads /,$p' "$SCRATCH/out")
whet_given '' probe -m "$model" --sizes 4 --sequences 1 --policy softmax --threads 1 --quiet
check "of one size there are no slopes" [ "$(grep -c ' [-+][0-9][0-9.]*$' "$SCRATCH/out") $(grep -c '^[0-9]*\.[0-9]* .* -$' "$SCRATCH/out")" = "0 12" ]
for library in "$WHET_LLAMA_LIB" "${WHET_LLAMA_LIB%/lib}"-*/lib; do # beside it older ones, if any, which tell no version
    [ -d "$library" ] || continue
    whet_given '' probe -m "$model" --sizes 4 --sequences 1 --policy softmax --threads 1 --quiet --llama "$library"
    check "llama.cpp's version is printed, or that it is unknown" grep -Eq ' with llama\.cpp ([0-9][^ :]*|\(unknown version\)):' "$SCRATCH/out"
done
whet_given '' probe -m "$model" --sizes 2 --sequences 1 --policy softmax --threads 1 --seed 18446744073709551615 --quiet --json "$SCRATCH/seed.json"
check "the largest seed is kept as it was given" grep -q '"seed": "18446744073709551615"' "$SCRATCH/seed.json"
whet_given '' probe -m "$model" --sizes 4,8,16 --sequences 2 --policy softmax --policy adaptive --every 1 --threads 1 --csv - --quiet
check "which may go to standard output, alone" cmp "$SCRATCH/out" "$SCRATCH/probe.csv"
check "every head, size and policy is in the CSV" [ "$(wc -l <"$SCRATCH/probe.csv")" -eq $((1 + 2 * 3 * 40)) ]

# No logits lie further apart than the weights allow, under either policy, and the bound is not idle.
"$WHET_BIN" audit "$model" --csv "$SCRATCH/audit.csv" --quiet >/dev/null
within_bounds() {
    awk -F, '
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        NR == FNR { bound[$at["layer"], $at["head"]] = $at["spread_tighter"]; next }
        {
            share = $at["widest_spread"] / bound[$at["layer"], $at["head"]]
            if (share > 1 || share <= 0) { print; bad = 1 }
            if (share > most) most = share
        }
        END { printf "at most %.1f %% of the bound\n", 100 * most; exit bad || most < 0.01 }' "$SCRATCH/audit.csv" "$SCRATCH/probe.csv"
}
check "no spread exceeds its bound" within_bounds

for heads in --quiet --all-heads; do
    whet_given '' probe "$model" --sizes 2,4 --sequences 1 --policy softmax --policy sigmoid --layers 0-3 --threads 1 --quiet $heads
    check "what has no entropy is left blank and explained ($heads)" [ "$(grep -c -e nan "$SCRATCH/out") $(grep -c '^(-: ' "$SCRATCH/out")" = '0 1' ]
    check "beside what has one ($heads)" [ "$(sed -n '/after policy sigmoid/,/^ln n/p' "$SCRATCH/out" | grep -c '^[04].* - \|^4')" -ge 2 ]
done
whet_given '' probe "$model" --text "$(cat "$SCRATCH/story")" --policy softmax --threads 1 --quiet --layer 2
check "beginnings of a text are probed" [ "$status" -eq 0 ]
check "with a line for each head of a layer" [ "$(grep -c '^2\.[0-7] .*[#=+*:._-]' "$SCRATCH/out")" -ge 8 ]
check "and no word of a context that it does not fill" [ "$(grep -c 'do not fit' "$SCRATCH/out")" -eq 0 ]
says() { tr '\n' ' ' <"$SCRATCH/out" | grep -q -e "$1"; } # wherever lines are broken
printf 'Once upon a time\n' >"$SCRATCH/prompt"
whet_given '' probe "$model" --prompt-file "$SCRATCH/prompt" --policy softmax --threads 1 --quiet
check "a prompt of one's own may be short, and is probed to its end" says 'of 4 tokens '
whet_given '' probe "$model" --text 'Largest of {seq}:' --sizes 2,4 --sequences 1 --policy softmax --threads 1 --quiet --json "$SCRATCH/own.json"
check "a question of one's own is asked of growing sequences" says ' 2 to 4 numbers '
check "and its answers are counted" grep -q '"asked": 1' "$SCRATCH/own.json"
printf 'a text \0 with more' >"$SCRATCH/zero"
refuses "a text with a zero byte is none" '' '' "whet probe: $SCRATCH/zero: not a text file (NUL byte at offset 7)\n" \
    probe "$model" --prompt-file "$SCRATCH/zero"
whet_given '' probe "$model" --sizes 4,1000 --policy softmax --threads 1 --quiet --json "$SCRATCH/long.json"
check "a prompt longer than the context is refused" [ "$status" -eq 2 ]
check "with its length" grep -q 'exceed the context of 512' "$SCRATCH/err"
check "and nothing is written" [ ! -e "$SCRATCH/long.json" ]
head -c 500000 "$model" >"$SCRATCH/cut.gguf"
whet_given '' probe "$SCRATCH/cut.gguf" --quiet
check "a model that was cut off is refused" [ "$status" -eq 2 ]
check "with a word on why" grep -q 'truncated file: tensor .* needs data up to .* bytes, but there are' "$SCRATCH/err"
whet_given '' probe "$model" --sizes 2 --layers nonsense --threads 1 --quiet
check "layers that are none are refused" [ "$status" -ne 0 ]
check "with the plug-in's own words" grep -q 'nonsense' "$SCRATCH/err"
whet_given '' probe "$model" --sizes 2 --policy softmax --layer 9 --threads 1 --quiet
check "a layer that is not there is refused" grep -q 'the model has layers 0 to 4' "$SCRATCH/err"
whet_given '' probe "$model" --layer 5 --llama /nowhere --quiet
check "before anything is run" grep -q 'the model has layers 0 to 4' "$SCRATCH/err"
whet_given '' probe "$model" --layers 0-3,9 --llama /nowhere --quiet
check "layers for a policy that are not there are refused" grep -qx 'whet probe: --layers: [0-9]* is out of range; the model has layers 0 to 4' "$SCRATCH/err"
check "with a status of misuse" [ "$status" -eq 2 ]
whet_given '' probe "$model" --layers 0-4 --heads 8 --llama /nowhere --quiet
check "and heads that are not" grep -qx 'whet probe: --heads: [0-9]* is out of range; the model has heads 0 to 7' "$SCRATCH/err"
whet_given '' probe "$model" --every 65536 --quiet
check "a step too large is refused" grep -q -e '--every: .* is out of range (1 to 65,535)' "$SCRATCH/err"
if [ -z "${WHET_INSTRUMENTED:-}" ]; then
    rm -f "$SCRATCH/none.json"
    (ulimit -v 20000 && exec "$WHET_BIN" probe "$model" --sizes 2 --policy softmax --threads 1 --quiet --json "$SCRATCH/none.json") \
        >"$SCRATCH/out" 2>"$SCRATCH/err"
    check "no memory for the model is a failure" [ $? -eq 1 ]
    check "with a message" grep -q '^whet probe: ' "$SCRATCH/err"
    without_memory() { # kilobytes
        (ulimit -v "$1" && exec "$WHET_BIN" probe "$model" --sizes 2 --policy softmax --threads 1 --quiet --json "$SCRATCH/none.json") \
            >"$SCRATCH/out" 2>"$SCRATCH/err"
        local status=$?
        cat "$SCRATCH/err"
        [ $status -eq 0 ] && return 0
        [ $status -eq 1 ] && [ ! -e "$SCRATCH/none.json" ] && [ ! -s "$SCRATCH/out" ] && ! grep -q 'attention operations handled' "$SCRATCH/err"
    }
    for kilobytes in 10000 12000 16000 18000 24000 32000; do
        check "with $kilobytes kilobytes it is one, or enough" without_memory $kilobytes
        rm -f "$SCRATCH/none.json"
    done
    check "and nothing is written either" [ ! -e "$SCRATCH/none.json" ]
else
    skip "no memory for the model is a failure" "sanitizers need memory themselves"
fi
if [ -z "${WHET_INSTRUMENTED:-}" ]; then
    (ulimit -f 4 && exec "$WHET_BIN" probe "$model" --sizes 2 --policy softmax --every 1 --threads 1 --quiet) >"$SCRATCH/out" 2>"$SCRATCH/err"
    check "a record that does not fit on the disk is a failure" [ $? -eq 1 ]
    check "that names the file" grep -q '^whet probe: cannot record the heads (whet: .*/rows.csv: File too large' "$SCRATCH/err"
else
    skip "a record that does not fit on the disk is a failure" "instrumented programs write files of their own"
fi
if have gnuplot; then
    figure3() { # option ...
        whet_given '' figure 3 "$model" --sizes 2,4 --sequences 1 --threads 1 --out "$SCRATCH/figure3.svg" --figures "$SCRATCH/all.svg" "$@"
    }
    figure3 --quiet
    ended_with "figure 3 is drawn" 0 '' ''
    figure3 2>/dev/null
    check "and what was drawn is printed" [ "$(cat "$SCRATCH/out")" = "$SCRATCH/figure3.svg: Figure 3, entropies of the heads in layer 0 of stories260K-f32.gguf
$SCRATCH/all.svg: Figure 3 of all layers" ]
    check "of one layer" grep -q 'layer 0' "$SCRATCH/figure3.svg"
    check "and of all" grep -q 'layer 4' "$SCRATCH/all.svg"
    check "with the mean of its heads" grep -q 'mean, softmax' "$SCRATCH/figure3.svg"
    odd=$SCRATCH/$(printf 'o\377d\033\001<&.gguf')
    cp "$model" "$odd"
    whet_given '' figure 3 "$odd" --sizes 2,4 --sequences 1 --threads 1 --quiet --out "$SCRATCH/odd.svg"
    check "a name that is no text gives a picture that is one" [ "$(LC_ALL=C grep -c '[^ -~]' <(LC_ALL=C tr -d '\t\302\261' <"$SCRATCH/odd.svg"))" -eq 0 ]
    check "with what can be read of it" grep -q 'o?d  &lt;&amp;.gguf' "$SCRATCH/odd.svg"
    if [ -r "$WHET_MODELS/minimind2-small-q8_0.gguf" ]; then # which puts no token in front
        whet_given '' probe "$WHET_MODELS/minimind2-small-q8_0.gguf" --text a --policy softmax --threads 1 --quiet --figure "$SCRATCH/single.svg"
        check "a single token can be drawn" [ "$status" -eq 0 ]
        check "and nothing is printed as nan" [ "$(grep -c nan "$SCRATCH/out")" -eq 0 ]
    fi
    figure3 --quiet --policy adaptive
    check "which of another policy is shown before and after it acts" \
        [ "$(grep -c 'mean before adaptive\|mean after adaptive' "$SCRATCH/figure3.svg")" -ge 2 ]
else
    skip "figure 3 is drawn" "needs gnuplot"
fi
stopped_by() { # signal status
    rm -f "$SCRATCH/stopped.json"
    "$WHET_BIN" probe "$model" --sizes 4..32:x2 --sequences 1000 --policy softmax --threads 1 --quiet --json "$SCRATCH/stopped.json" >"$SCRATCH/out" 2>"$SCRATCH/err" &
    local probe=$!
    while kill -0 $probe && [ -z "$(ls "$TMPDIR")" ]; do sleep 0.05; done
    kill -"$1" $probe
    wait $probe
    local status=$?
    cat "$SCRATCH/err"
    [ $status -eq "$2" ] && [ ! -e "$SCRATCH/stopped.json" ] && [ -z "$(ls "$TMPDIR")" ]
}
check "Ctrl-C ends a probe in good order" stopped_by INT 130
check "SIGTERM does" stopped_by TERM 143
check "SIGHUP does" stopped_by HUP 129
killed() { # leaves temporary files, which the next probe removes
    "$WHET_BIN" probe "$model" --sizes 4..32:x2 --sequences 1000 --policy softmax --threads 1 --quiet >/dev/null 2>&1 &
    local probe=$!
    while kill -0 $probe && [ -z "$(ls "$TMPDIR")" ]; do sleep 0.05; done
    kill -9 $probe
    wait $probe 2>/dev/null
    [ -n "$(ls "$TMPDIR")" ] || return 1
    "$WHET_BIN" probe "$model" --sizes 4 --count 1 --policy softmax --threads 1 --quiet >"$SCRATCH/out" 2>&1 && [ -z "$(ls "$TMPDIR")" ]
}
check "what a killed probe left is removed by the next" killed
check "nothing is left in the folder for temporary files" [ -z "$(ls "$TMPDIR")" ]
finish
