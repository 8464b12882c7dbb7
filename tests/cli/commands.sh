# What the program says of itself, for tests that compare it with the manual page and the completions: sourced after lib.sh.

# Every command, with its subcommand or form if it has one: "softmax", "lm train", "figure 3".
all_commands() {
    "$WHET_BIN" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r name; do
        verbs=$("$WHET_BIN" "$name" --help | sed -n '/^subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
        for verb in $verbs; do echo "$name $verb"; done
        [ -n "$verbs" ] || echo "$name"
    done
    printf '%s\n' 'figure 3' 'bench clrs'
}

# The options of a command by its help, long and short, one a line and sorted.
options_of() { # command ...
    "$WHET_BIN" "$@" --help </dev/null | sed -n -e 's/^      \(--[a-z0-9-]*\).*/\1/p;t' \
        -e 's/^  \(-[a-zA-Z]\), \(--[a-z0-9-]*\).*/\1\n\2/p' | sort
}
