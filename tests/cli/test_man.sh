# The manual page: well-formed, and nothing the program offers left out.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

page=$WHET_SOURCE_DIR/man/whet.1
says_nothing() { # command [argument ...]; fails if the command prints anything
    local output
    output=$("$@" 2>&1)
    [ -z "$output" ] || { echo "$output"; return 1; }
}
if have mandoc; then
    check "mandoc warns of nothing" says_nothing mandoc -T lint -W warning "$page"
else
    skip "mandoc warns of nothing" "needs mandoc"
fi
if have groff; then
    check "groff warns of nothing" says_nothing groff -ww -mdoc -Tutf8 -z "$page"
else
    skip "groff warns of nothing" "needs groff"
fi
if have man && man --version 2>/dev/null | grep -q '^man '; then
    formatted_by_man() {
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" >/dev/null
    }
    check "man warns of nothing" says_nothing formatted_by_man
else
    skip "man warns of nothing" "needs man-db"
fi

# The text as it is typed: no font macros between words and no escaped dashes.
plain=$SCRATCH/plain
sed -e 's/\\-/-/g' -e 's/^\.[A-Z][a-z] //' -e 's/ Ns / /g' -e 's/Fl /-/g' "$page" >"$plain"
has() {
    grep -qF -- "$1" "$plain" || { echo "not in the page: $1"; return 1; }
}
for name in $("$WHET_BIN" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    check "the page has the command $name" has "whet $name"
    for option in $("$WHET_BIN" "$name" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
        check "the page has $option of $name" has "$option"
    done
done
for verb in train eval fit heads; do
    check "the page has retrieval $verb" has "whet retrieval $verb"
    for option in $("$WHET_BIN" retrieval "$verb" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p'); do
        check "the page has $option of retrieval $verb" has "$option"
    done
done
for verb in generate mix export score list; do
    check "the page has the verb $verb of clrs" has "clrs $verb"
    for option in $("$WHET_BIN" clrs "$verb" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
        check "the page has $option of clrs $verb" has "$option"
    done
done
check "the page has a composition" has "$("$WHET_BIN" policies --names | grep '+')"
# The page's list of policies is the program's table: the same in the same order, as `whet policies` writes them, without the
# macros in between.
policies_of_the_page() {
    sed -n '/^\.Sh POLICIES/,/^\.Sh STATISTICS/s/^\.It Cm //p' "$page" |
        sed -e 's/ Ns / /g' -e 's/\(^\| \)\(Cm\|Ar\) /\1/g' -e 's/ *Oo */[/g' -e 's/ *Oc */]/g' -e 's/ Ns$//' -e 's/ //g'
}
policies_of_the_table() {
    "$WHET_BIN" policies --json | sed -n 's/^  {"syntax": "\([^"]*\)".*/\1/p' | grep -v '+'
}
check "the page lists the policies of the table" diff <(policies_of_the_page) <(policies_of_the_table)
check "the page is of this version" has "whet $("$WHET_BIN" --version | cut -d ' ' -f 2)"
whet_given '1 2 3 4\n' softmax --policy softmax --policy adaptive
check "the page's example is what the program answers" near "$(sed -n '/^softmax	/p; /^adaptive	/p' "$page")" "$(cat "$SCRATCH/out")"
finish
