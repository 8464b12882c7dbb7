# The manual page: well-formed, and with every command, option and policy of the program, and no other.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"
# shellcheck source=commands.sh
. "$WHET_SOURCE_DIR/tests/cli/commands.sh"

page=$SCRATCH/whet.1
"$WHET_BIN" help --man >"$page" 2>"$SCRATCH/err"
check "the program prints its manual page" [ "$?/$(wc -c <"$SCRATCH/err")" = 0/0 ]
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

for section in NAME SYNOPSIS DESCRIPTION COMMANDS VALUES POLICIES STATISTICS ENVIRONMENT FILES 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
    check "the page has the section $section" grep -qx ".Sh $section" "$page"
done
check "nothing is left to be filled in" says_nothing grep -nE '^@|@[A-Z]+@' "$page"

# Commands and options, both ways: what a section lists is what the command's help lists, but for what every command takes.
check "the page's commands are those of the program" \
    diff <(sed -n 's/^\.Ss whet //p' "$page" | sort) <(all_commands | sort)
check "and so is its synopsis" diff <(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh/s/^\.Cm //p' "$page" | sort) <(all_commands | sort)
options_in() { # the lines of a list; options one a line, sorted
    sed -n 's/^\.It Fl //p' | sed -e 's/\\-/-/g' -e 's/ Op Ar .*//' -e 's/ Ar .*//' -e 's/ , Fl /\n/' |
        sed 's/^\(.*\)$/-\1/' | sort
}
common=$(sed -n '/^\.Sh DESCRIPTION/,/^\.Sh/p' "$page" | options_in)
check "every command's options are explained once" [ "$common" = "$(printf '%s\n' --color --help --quiet --version -V -h -q | sort)" ]
while read -r name; do
    # shellcheck disable=SC2086 # words of a command
    check "the page's options of $name are those of the program" diff \
        <(sed -n "/^\.Ss whet $name\$/,/^\.S[hs]/p" "$page" | options_in) \
        <(options_of $name | grep -vxFe "$common")
done < <(all_commands)

# Policies as `whet policies` lists them, the same in the same order.
policies_of_the_page() {
    sed -n '/^\.Sh POLICIES/,/^\.Sh STATISTICS/s/^\.It Cm //p' "$page" | sed 's/\\-/-/g'
}
policies_of_the_table() {
    "$WHET_BIN" policies --json | sed -n 's/^  {"syntax": "\([^"]*\)".*/\1/p' | grep -v '+'
}
check "the page lists the policies of the table" diff <(policies_of_the_page) <(policies_of_the_table)
check "the page has a composition" grep -qF "$("$WHET_BIN" policies --names | grep '+')" "$page"
check "the page is of this version" grep -qx ".Os whet $("$WHET_BIN" --version | cut -d ' ' -f 2)" "$page"
whet_given '1 2 3 4\n' softmax --policy softmax --policy adaptive
check "the page's example is what the program answers" near "$(sed -n '/^softmax	/p; /^adaptive	/p' "$page")" "$(cat "$SCRATCH/out")"
refuses "the page is not about one command" '' '' \
    "whet help: --man, --completions and a command cannot be combined\n" help --man softmax
finish
