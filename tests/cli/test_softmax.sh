# whet softmax: the numbers it prints.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

row='1 2 3 4\n'
other='.1 .2 .3 .9\n'
answers_near "a row of logits becomes probabilities" "$row" '0.0320586033 0.0871443187 0.236882818 0.64391426' softmax

# Values by hand, in double.
while read -r policy input expected; do
    [ "$input" = row ] && input=$row || input=$other
    answers_near "$policy gives its known values" "$input" "$expected" softmax --policy "$policy"
done <<'TABLE'
softmax row 0.0320586033 0.0871443187 0.236882818 0.64391426
fixed:2 row 0.00214400878 0.0158422012 0.117058913 0.864954877
fixed:2:strength=0.5 row 0.00865168976 0.0387741834 0.173773834 0.778800293
adaptive row 0.0201525346 0.0657422296 0.21446636 0.699638876
adaptive:hold row 0.0201525346 0.0657422296 0.21446636 0.699638876
poly:-0.037/0.481/-2.3/4.917/-1.791 row 0.0201525346 0.0657422296 0.21446636 0.699638876
exp:0.5 row 0.00725432039 0.0346761225 0.165754117 0.79231544
target:0.5 row 0.00302404698 0.0197909526 0.129522394 0.847662607
ssmax:1 row 0.0117647059 0.0470588235 0.188235294 0.752941176
length:2 row 0.00214400878 0.0158422012 0.117058913 0.864954877
linear:2 row 0.00214400878 0.0158422012 0.117058913 0.864954877
topk:2 row 0 0 0.268941421 0.731058579
hardmax row 0 0 0 1
sparsemax other 0 0.0666666667 0.166666667 0.766666667
entmax15 other 0.114017278 0.150283722 0.191550167 0.544148834
entmax:1.25 other 0.152246883 0.17812265 0.207164542 0.462465924
softmax1 row 0.0316849208 0.0861285444 0.234121657 0.636408647
sigmoid row 0.404609675 0.648785644 0.83392523 0.931738459
sigmoid:1 row 0.5 0.731058579 0.880797078 0.952574127
stick-breaking row 7.43351246e-05 0.000751330224 0.0171331982 0.98201379
TABLE

# Whatever policies there are: each one's example works, and a temperature's result sums to one.
"$WHET_BIN" policies --names >"$SCRATCH/names"
sound_row() { # policy
    whet_given '0.5 -1 2.25 0 -inf 1\n' softmax --policy "$1"
    [ "$status" -eq 0 ] && [ ! -s "$SCRATCH/err" ] &&
        awk 'NF != 6 || $5 != 0 || /nan/ || /inf/ { exit 1 } { for (i = 1; i <= NF; i++) if ($i < 0 || $i > 1) exit 1 }' \
            "$SCRATCH/out"
}
while read -r name; do
    check "the example $name gives a sound row" sound_row "$name"
done <"$SCRATCH/names"
sums_to_one() { # policy
    whet_given '0.5 -1 2.25 0 -inf 1\n' softmax --policy "$1"
    awk '{ for (i = 1; i <= NF; i++) s += $i } END { exit !(s > 0.999999 && s < 1.000001) }' "$SCRATCH/out"
}
if have python3; then
    "$WHET_BIN" policies --json | python3 -c '
import json, sys
for entry in json.load(sys.stdin):
    if entry["temperature"]: print(entry["example"])' >"$SCRATCH/temperatures"
    while read -r name; do
        check "the result of $name sums to one" sums_to_one "$name"
    done <"$SCRATCH/temperatures"
else
    skip "the results of temperatures sum to one" "needs python3"
fi

answers "several policies answer each row in order, named" '0 0\n5\n' \
    'softmax\t0.5 0.5\nhardmax\t0.5 0.5\nsoftmax\t1\nhardmax\t1\n' softmax --policy softmax --policy=hardmax
answers "the same policy twice answers twice" '7\n' 'softmax\t1\nsoftmax\t1\n' softmax --policy softmax --policy softmax
answers "masked entries get zero" '0 -inf 0\n' '0.5 0 0.5\n' softmax
answers "a row in which all is masked gives zeros" '-inf -inf\n' '0 0\n' softmax
answers "a row of one is one" '-3e38\n' '1\n' softmax
answers "no input gives no output" '' '' softmax
answers "an empty line gives an empty line" '\n0 0\n\n' '\n0.5 0.5\n\n' softmax
answers "an empty line is named too when there are several policies" '\n' 'softmax\t\nhardmax\t\n' \
    softmax --policy softmax --policy hardmax
answers "equal huge logits do not overflow" '3e38 3e38\n' '0.5 0.5\n' softmax

not_finite='the row holds nan or +inf, so its result is nan (further such rows are not reported)'
whet_given '0 0\n0 nan 1\n5\n1 +inf\n' softmax
ended_with "a row with nan is nan, the others are right, and the first is named" 1 '0.5 0.5\nnan nan nan\n1\nnan nan\n' \
    "whet softmax: <stdin>:2: $not_finite\n"
whet_given '0 -nan\n' softmax --policy softmax --policy hardmax
ended_with "nan is never printed with a sign, and reported once for all policies" 1 \
    'softmax\tnan nan\nhardmax\tnan nan\n' "whet softmax: <stdin>:1: $not_finite\n"

answers "rows of several lengths are answered in order" '0 0\n7\n8\n0 0\n0 0\n\n\n9\n' \
    '0.5 0.5\n1\n1\n0.5 0.5\n0.5 0.5\n\n\n1\n' softmax
whet_given '0 0\n0 0\nnan 0\n0 0\n0 nan\n' softmax --policy softmax --policy hardmax
ended_with "the first row with nan among rows of one length is named" 1 \
    "$(printf 'softmax\\t%s\\nhardmax\\t%s\\n' '0.5 0.5'{,} '0.5 0.5'{,} 'nan nan'{,} '0.5 0.5'{,} 'nan nan'{,})" \
    "whet softmax: <stdin>:3: $not_finite\n"
one_by_one() { # rows of one length, answered together and each by itself
    awk 'BEGIN { srand(7); for (r = 0; r < 3000; r++) for (i = 0; i < 9; i++) printf "%.4f%s", 20 * rand(), i < 8 ? " " : "\n" }' \
        >"$SCRATCH/many"
    "$WHET_BIN" softmax --policy adaptive "$SCRATCH/many" >"$SCRATCH/together"
    "$WHET_BIN" softmax --policy adaptive --policy softmax "$SCRATCH/many" | sed -n 's/^adaptive\t//p' >"$SCRATCH/among"
    awk '{ print; print 1 }' "$SCRATCH/many" | "$WHET_BIN" softmax --policy adaptive | sed -n 'p;n' >"$SCRATCH/alone"
    cmp "$SCRATCH/together" "$SCRATCH/among" &&
        paste -d ' ' "$SCRATCH/together" "$SCRATCH/alone" |
        awk '{ for (i = 1; i <= 9; i++) if (NF != 18 || ($i - $(i + 9)) ^ 2 > 1e-12) exit 1 } END { exit NR != 3000 }'
}
check "rows are answered alike together and alone" one_by_one

for n in 1 2 15 17 1000 200000; do
    uniform() {
        seq -s ' ' "$n" | sed 's/[0-9][0-9]*/3/g' | "$WHET_BIN" softmax | tr ' ' '\n' |
            awk -v n="$n" '{ k++; s += $1; if ($1 < 0.99999 / n || $1 > 1.00001 / n) bad = 1 }
                           END { exit !(k == n && !bad && s > 0.9999 && s < 1.0001) }'
    }
    check "$n equal logits share evenly" uniform
done

# Sinks, betas and positions.
answers "a sink takes its share" '0 0 0\n' '0.25 0.25 0.25\n' softmax --sink 0
answers "a map has it as one more entry" '2\n' '0\n' softmax --sink 3 --policy hardmax
answers "a beta is that of every row" '0 1\n0 2\n\n' '0 1\n0 1\n\n' softmax --beta 1e3
answers "a composition with a sink" '0 0 0 0\n' '0.200000003 0.200000003 0.200000003 0.200000003\n' softmax --policy fixed:2+topk:4 --sink 0
answers "a position that no policy asks for changes nothing" '0 0\n' '0.5 0.5\n' softmax --position 9000
refuses "a beta beside a temperature is refused" '0\n' '' \
    "whet softmax: --beta: the policy 'adaptive+hardmax' sets its own beta; use softmax or a map\n" \
    softmax --beta 2 --policy softmax --policy adaptive+hardmax
for beta in -1 1e31; do
    refuses "a beta of $beta is refused" '0\n' '' "whet softmax: --beta: ${beta/1e/1e+} is out of range (0 to 1e30)\n" softmax --beta $beta
done
answers "a beta of 0 is uniform" '1 2\n' '0.5 0.5\n' softmax --beta 0
refuses "a sink beyond a float is refused" '0\n' '' "whet softmax: --sink: 1e+39 is out of range (that of 32-bit floats, -3.4e38 to 3.4e38)\n" softmax --sink 1e39
refuses "two maps are refused" '0\n' '' \
    "whet softmax: --policy 'topk:3+hardmax': 'topk:3' is a map: expected a temperature before '+' and a map after it\n" \
    softmax --policy topk:3+hardmax
finish
