/*
 * The manual page in mdoc. man/whet.1.in is its text; a line of it that begins
 * with @ is replaced by what the program knows:
 *
 *     @SYNOPSIS      one line for each command
 *     @COMMON        the options of every command
 *     @COMMANDS      a section for each command: what it does, its options, its
 *                    note in the text (below @NOTES, headed "@NOTE command"),
 *                    and its examples
 *     @TEMPERATURES, @MAPS   policies
 *     @SETS          instruction sets
 *
 * and @VERSION@ anywhere by the version.
 */
#include "man_page.h"

#include "command_table.h"
#include "help.h"
#include "messages.h"
#include "registry_words.h"
#include "whet.h"

#include "whet_man_page.h" /* made from man/whet.1.in */

#include <string.h>

enum { PAGE_WIDTH = 78 };

/* ---- text as mdoc ---- */

/* A character of running text. */
static void put_character(FILE *file, char c, bool is_literal) {
    if (c == '\\')
        fputs("\\e", file);
    else if (c == '\'')
        fputs("\\(aq", file);
    else if (c == '-' && is_literal)
        fputs("\\-", file);
    else
        fputc(c, file);
}

/* The words of a text, with a line broken after each sentence and before it gets too long. */
static void put_text(FILE *file, const char *text, size_t length) {
    size_t used = 0;
    const char *end = text + length;
    while (text < end) {
        size_t word = strcspn(text, " \n");
        word = word > (size_t)(end - text) ? (size_t)(end - text) : word;
        if (word == 0) {
            text++;
            continue;
        }
        if (used > 0 && used + word + 1 > PAGE_WIDTH) {
            fputc('\n', file);
            used = 0;
        }
        if (used > 0)
            fputc(' ', file);
        else if (*text == '.' || *text == '\'')
            fputs("\\&", file);
        for (size_t i = 0; i < word; i++)
            put_character(file, text[i], text[0] == '-' || text[0] == '(');
        used += word + 1;
        text += word;
        if (text[-1] == '.' && word > 2) { /* a sentence ends */
            fputc('\n', file);
            used = 0;
        }
    }
    if (used > 0)
        fputc('\n', file);
}

/* Lines as they are, from `text` to `end`, less the blanks that all of them begin with. */
static void put_literal(FILE *file, const char *text, const char *end) {
    fputs(".Bd -literal -offset indent\n", file);
    while (text < end) {
        size_t length = strcspn(text, "\n");
        size_t skipped = strncmp(text, "  ", 2) == 0 ? 2 : 0;
        if (text[skipped] == '.' || text[skipped] == '\'')
            fputs("\\&", file);
        for (size_t i = skipped; i < length; i++)
            put_character(file, text[i], true);
        fputc('\n', file);
        text += length + (text[length] == '\n');
    }
    fputs(".Ed\n", file);
}

/* The end of the lines at `text` that all are, or are not, indented; an empty one ends them. */
static const char *end_of_block(const char *text) {
    bool is_literal = *text == ' ';
    while (*text && *text != '\n' && (*text == ' ') == is_literal) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

/* Paragraphs; indented lines are kept as they are. */
static void put_paragraphs(FILE *file, const char *text) {
    for (bool is_first = true; *text; is_first = false) {
        const char *end = end_of_block(text);
        if (*text == ' ') {
            put_literal(file, text, end);
        } else if (end > text) {
            if (!is_first)
                fputs(".Pp\n", file);
            put_text(file, text, (size_t)(end - text));
        }
        text = end + (*end == '\n');
    }
}

/* A word as an argument of a macro. */
static void put_argument(FILE *file, const char *word) {
    for (; *word; word++)
        put_character(file, *word, true);
}

/* ---- options ---- */

static void put_option(FILE *file, const option_spec *option) {
    char summary[SUMMARY_SIZE];
    fputs(".It ", file);
    if (option->letter)
        fprintf(file, "Fl %c , ", option->letter);
    fputs("Fl \\-", file);
    put_argument(file, option->name);
    if (option->value_name) {
        fputs(option->kind == OPTION_OPTIONAL ? " Op Ar " : " Ar ", file);
        put_argument(file, option->value_name);
    }
    fputc('\n', file);
    const char *text = option_summary(option, summary);
    put_text(file, text, strlen(text));
}

static void put_options(FILE *file, const option_spec *options, size_t count) {
    bool is_open = false;
    for (size_t i = 0; i < count; i++) {
        bool is_heading = options[i].kind == OPTION_HEADING;
        if (is_heading && is_open)
            fputs(".El\n", file);
        if (is_heading)
            fprintf(file, ".Pp\n.Em %c%s options :\n",
                    options[i].name[0] - 'a' + 'A', /* in any locale */
                    options[i].name + 1);
        if (is_heading || !is_open)
            fputs(".Bl -tag -width Ds\n", file);
        is_open = true;
        if (!is_heading)
            put_option(file, &options[i]);
    }
    if (is_open)
        fputs(".El\n", file);
}

/* ---- what stands for a line of the text ---- */

/* "[FILE...]" as "Op Ar FILE ..." */
static void put_operands(FILE *file, const char *operands) {
    if (!*operands)
        return;
    fputs(*operands == '[' ? ".Op" : ".", file);
    for (const char *at = operands; *at;) {
        at += strspn(at, "[ ]");
        size_t length = strcspn(at, "[ ].");
        if (length > 0)
            fprintf(file, "%sAr %.*s", at == operands ? "" : " ", (int)length, at);
        at += length;
        if (strncmp(at, "...", 3) == 0)
            fputs(" ...", file);
        while (*at == '.' || *at == ']')
            at++;
        at += strncmp(at, "gguf", 4) == 0 ? 4 : 0; /* of MODEL.gguf */
    }
    fputc('\n', file);
}

static void put_synopsis(const command_syntax *syntax, void *context) {
    FILE *file = context;
    fprintf(file, ".Nm\n.Cm %s\n", syntax->name);
    if (syntax->option_count > 0)
        fputs(".Op Ar option ...\n", file);
    put_operands(file, syntax->operands);
}

/* The note on a command, up to the next one or the end; NULL where there is none. */
static const char *find_note(const char *command, size_t *length) {
    for (const char *at = strstr(whet_man_page, "\n@NOTE "); at; at = strstr(at + 1, "\n@NOTE ")) {
        const char *name = at + strlen("\n@NOTE ");
        size_t size = strcspn(name, "\n");
        const char *next = strstr(name, "\n@NOTE ");
        if (size != strlen(command) || memcmp(name, command, size) != 0)
            continue;
        const char *text = name + size + 1;
        *length = next ? (size_t)(next - text) + 1 : strlen(text);
        return text;
    }
    return NULL;
}

static void put_command(const command_syntax *syntax, void *context) {
    FILE *file = context;
    size_t length = 0;
    const char *note = find_note(syntax->name, &length);
    fprintf(file, ".Ss whet %s\n", syntax->name);
    put_paragraphs(file, syntax->about);
    put_options(file, syntax->options, syntax->option_count);
    if (syntax->more) {
        fputs(".Pp\n", file);
        put_paragraphs(file, syntax->more);
    }
    if (note) {
        fputs(".Pp\n", file);
        fwrite(note, 1, length, file);
    }
    if (syntax->examples) {
        fputs(".Pp\nExamples:\n", file);
        put_literal(file, syntax->examples, syntax->examples + strlen(syntax->examples));
    }
}

static void put_policies(FILE *file, bool temperatures) {
    const whet_policy_info *info;
    fputs(".Bl -tag -width Ds\n", file);
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++) {
        if ((info->is_temperature != 0) != temperatures)
            continue;
        fputs(".It Cm ", file);
        put_argument(file, info->syntax);
        fputc('\n', file);
        put_text(file, info->summary, strlen(info->summary));
    }
    fputs(".El\n", file);
}

/* ---- the page ---- */

/* A line of the text, in which @VERSION@ stands for the version. */
static void put_line(FILE *file, const char *line, size_t length) {
    static const char version[] = "@VERSION@";
    const char *found = strstr(line, version);
    if (!found || found >= line + length) {
        fwrite(line, 1, length, file);
        return;
    }
    const char *rest = found + sizeof version - 1;
    fwrite(line, 1, (size_t)(found - line), file);
    fputs(whet_version(), file);
    fwrite(rest, 1, (size_t)(line + length - rest), file);
}

static void put_directive(FILE *file, const char *name, size_t length) {
    char words[WORDS_SIZE_MAX];
    if (strncmp(name, "SYNOPSIS", length) == 0)
        visit_all_commands(put_synopsis, file);
    else if (strncmp(name, "COMMON", length) == 0)
        put_options(file, common_options, COMMON_OPTIONS);
    else if (strncmp(name, "COMMANDS", length) == 0)
        visit_all_commands(put_command, file);
    else if (strncmp(name, "TEMPERATURES", length) == 0)
        put_policies(file, true);
    else if (strncmp(name, "MAPS", length) == 0)
        put_policies(file, false);
    else if (strncmp(name, "SETS", length) == 0)
        fprintf(file, "%s;\n", join_words(isa_words, words));
}

static void note_command(const command_syntax *syntax, void *context) {
    size_t length = 0;
    if (find_note(syntax->name, &length))
        ++*(size_t *)context;
}

/* Whether every note is about a command that exists. */
static bool notes_are_used(void) {
    size_t used = 0, count = 0;
    visit_all_commands(note_command, &used);
    for (const char *at = strstr(whet_man_page, "\n@NOTE "); at; at = strstr(at + 1, "\n@NOTE "))
        count++;
    if (used != count)
        complain("the manual page has %zu notes, %zu of them on commands that exist", count, used);
    return used == count;
}

bool print_man_page(FILE *file) {
    for (const char *line = whet_man_page; *line && strncmp(line, "@NOTES", 6) != 0;) {
        size_t length = strcspn(line, "\n");
        if (*line == '@')
            put_directive(file, line + 1, length - 1);
        else
            put_line(file, line, length + (line[length] == '\n'));
        line += length + (line[length] == '\n');
    }
    return notes_are_used();
}
