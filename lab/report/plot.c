/*
 * Runs gnuplot on a script that is kept in a temporary file, draws into another
 * and copies that to where it belongs. The script's head fixes everything that
 * should look the same in every figure. Temporary files are beside the picture;
 * messages speak of the picture alone.
 */
#include "report/plot.h"
#include "base/atomic_file.h"
#include "base/files.h"
#include "report/html.h"
#include "report/plot_panels.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Okabe and Ito's colours, black last: it is for what others are compared with. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#8C7A00", "#000000"};
enum { COLOURS = sizeof colours / sizeof *colours };

static const char *terminal_for(const char *path) {
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".svg") == 0)
        return "svg";
    if (length > 4 && strcmp(path + length - 4, ".png") == 0)
        return "pngcairo";
    return NULL;
}

bool plot_knows(const char *path, lab_error *error) {
    return terminal_for(path) ||
           lab_fail(error, LAB_INPUT, "%s: figures are written as .svg or .png", path);
}

/* Nothing is substituted within single quotes; a quote is written twice. */
void plot_text(FILE *script, const char *text) {
    fputc('\'', script);
    for (const char *at = text ? text : ""; *at; at++) {
        if (*at == '\'')
            fputc('\'', script);
        fputc((unsigned char)*at < ' ' || *at == 127 ? ' ' : *at, script);
    }
    fputc('\'', script);
}

/* A picture under way. */
typedef struct drawing {
    const plot_request *of;
    const char *terminal;
    char *script, *output, *log;
    json_t *panels;
} drawing;

/* Sixteen styles: the colours with a full line and a filled dot, then again dashed with a ring, so
 * that curves that share a colour differ in two ways more. */
static void write_styles(FILE *script) {
    for (int i = 0; i < PLOT_STYLES; i++) {
        bool is_first = i < COLOURS;
        fprintf(script, "set style line %d lc '%s' lw 2 pt %d ps %s dt %s\n", i + 1,
                colours[i % COLOURS], is_first ? 7 : 6, is_first ? "0.5" : "0.9",
                is_first ? "solid" : "(6,4)");
    }
}

/* A PNG has twice the pixels, and everything in it is twice as large: for screens that are as fine,
 * and for print. */
static void write_terminal(FILE *script, const drawing *d) {
    bool is_svg = strcmp(d->terminal, "svg") == 0;
    int scale = is_svg ? 1 : 2;
    fprintf(script, "set terminal %s size %d,%d font 'DejaVu Sans,%d' background '#ffffff' %s\n",
            d->terminal, scale * d->of->width, scale * d->of->height, is_svg ? 13 : 11,
            is_svg ? "dynamic" : "fontscale 2 linewidth 2 pointscale 2 dashlength 2");
}

static void write_head(FILE *script, const drawing *d) {
    write_terminal(script, d);
    fputs("set encoding utf8\nset border 3 lc '#666666'\nset tics nomirror out tc '#333333'\n"
          "set grid lc '#dddddd' lt 1 lw 0.6\nset key tc '#333333' samplen 3 Left reverse opaque\n"
          "set rmargin 4\n",
          script);
    write_styles(script);
}

/* The first line of what gnuplot said, without its prompt and the name of the script. */
static const char *first_complaint(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    while (file && fgets(text, (int)size, file)) {
        text[strcspn(text, "\n")] = '\0';
        bool is_ours = strncmp(text, PLOT_PANEL_LINE, strlen(PLOT_PANEL_LINE)) == 0;
        if (!is_ours && text[strspn(text, " \t^")] != '\0' && !strstr(text, "gnuplot>"))
            break;
    }
    if (file)
        fclose(file);
    const char *behind = text[0] == '"' ? strchr(text + 1, '"') : NULL;
    return behind ? behind + 1 + strspn(behind + 1, " ") : text;
}

extern char **environ;

static bool fail_without_gnuplot(lab_error *error, int reason) {
    return lab_fail(error, LAB_SYSTEM, "gnuplot: cannot run: %s%s", strerror(reason),
                    reason == ENOENT ? "; install gnuplot-nox" : "");
}

bool plot_has_program(lab_error *error) {
    const char *rest = getenv("PATH");
    char place[4096];
    for (rest = rest ? rest : "/bin:/usr/bin"; *rest; rest += *rest == ':') {
        int length = (int)strcspn(rest, ":");
        snprintf(place, sizeof place, "%.*s/gnuplot", length > 4000 ? 4000 : length, rest);
        if (access(place, X_OK) == 0)
            return true;
        rest += length;
    }
    return fail_without_gnuplot(error, ENOENT);
}

/* The picture is gnuplot's standard output: its name never is part of a script. */
static int spawn_gnuplot(const drawing *d, pid_t *child) {
    enum { NEW_FILE = O_WRONLY | O_CREAT | O_EXCL };
    char program[] = "gnuplot";
    char *arguments[] = {program, d->script, NULL};
    posix_spawn_file_actions_t actions;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason != 0)
        return reason;
    reason = posix_spawn_file_actions_addopen(&actions, 1, d->output, NEW_FILE, 0600);
    if (reason == 0)
        reason = posix_spawn_file_actions_addopen(&actions, 2, d->log, NEW_FILE, 0600);
    if (reason == 0)
        reason = posix_spawnp(child, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

static bool run_gnuplot(const drawing *d, lab_error *error) {
    pid_t child;
    int reason = spawn_gnuplot(d, &child);
    if (reason != 0)
        return fail_without_gnuplot(error, reason);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return lab_fail(error, LAB_SYSTEM, "lost gnuplot: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    char complaint[256];
    return lab_fail(error, LAB_SYSTEM, "%s: cannot draw: gnuplot failed: %s", d->of->path,
                    first_complaint(d->log, complaint, sizeof complaint));
}

/* A picture in memory, and a piece of it that other words take the place of. */
typedef struct picture {
    const char *bytes;
    size_t size, cut_from, cut_to;
    const char *title;
    const json_t *panels;
    bool has_white_cells;
} picture;

static const char usual_title[] = "<title>Gnuplot</title>";

/* Where the reader's window is dark, so is the picture: paper, ink, lines and the darkest of the
 * colours, by the names that gnuplot gives them. Colours that stand for values stay. */
static const char dark_style[] =
    "\n<style>@media(prefers-color-scheme:dark){"
    "#gnuplot_canvas>rect:first-of-type{fill:#1a2029}text{fill:#ccd3db}g[color=black]{color:#"
    "e5e9ef}"
    "[stroke=black],[stroke='rgb(  0,   0,   0)']{stroke:#e5e9ef}"
    "[color='rgb(  0,   0,   0)']{color:#e5e9ef}"
    "[stroke='rgb(221, 221, 221)']{stroke:#333c48}"
    "[stroke='rgb(102, 102, 102)']{stroke:#8a94a1}"
    "[stroke='rgb( 85,  85,  85)']{stroke:#aab3bd}"
    "[stroke='rgb(  0, 114, 178)']{stroke:#3d9be0}[color='rgb(  0, 114, 178)']{color:#3d9be0}"
    "[fill='rgb(  0, 114, 178)']{fill:#3d9be0}"
    "g>polygon[fill='#FFFFFF']{fill:#1a2029}" /* behind a key */
    "}</style>";

/* Cells and their colour bar from black to light blue, instead of from white to dark blue. */
static const char dark_cells[] = "\n<style>@media(prefers-color-scheme:dark){"
                                 "g[shape-rendering]{filter:invert(1) hue-rotate(180deg)}}</style>";

static void find_title(picture *of) {
    size_t length = sizeof usual_title - 1;
    for (size_t i = 0; i + length <= of->size && i < 4096; i++)
        if (memcmp(of->bytes + i, usual_title, length) == 0) {
            of->cut_from = i;
            of->cut_to = i + length;
            return;
        }
}

static void write_picture(FILE *file, const void *context) {
    const picture *of = context;
    fwrite(of->bytes, 1, of->cut_from, file);
    if (of->cut_to > of->cut_from) {
        fputs("<title>", file);
        html_text(file, of->title);
        fputs("</title>", file);
        fputs(dark_style, file);
        if (of->has_white_cells)
            fputs(dark_cells, file);
        plot_panels_write(file, of->panels);
    }
    fwrite(of->bytes + of->cut_to, 1, of->size - of->cut_to, file);
}

/* gnuplot does not notice a full disk; a picture that is whole ends as its kind does. */
static bool is_whole(const picture *of, const char *terminal) {
    enum { END = 16 };
    const char *wanted = strcmp(terminal, "svg") == 0 ? "</svg>" : "IEND";
    size_t length = strlen(wanted), from = of->size > END ? of->size - END : 0;
    for (size_t i = from; i + length <= of->size; i++)
        if (memcmp(of->bytes + i, wanted, length) == 0)
            return true;
    return false;
}

static bool put_in_place(const drawing *d, lab_error *error) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    picture made = {.title = d->of->title, .panels = d->panels};
    char *bytes = lab_read_file(d->output, (size_t)1 << 28, &made.size, &unimportant);
    made.bytes = bytes;
    bool good = bytes && is_whole(&made, d->terminal);
    if (!good)
        lab_fail(error, LAB_SYSTEM, "%s: cannot write: gnuplot left it incomplete", d->of->path);
    if (good && strcmp(d->terminal, "svg") == 0) {
        plot_panels_answer(d->panels, d->log);
        find_title(&made);
        made.has_white_cells = strstr(bytes, "<polygon fill = 'rgb(255, 255, 255)'") != NULL;
    }
    if (good && !replace_file(d->of->path, write_picture, &made))
        good = lab_fail_file(error, "write", d->of->path);
    free(bytes);
    return good;
}

/* A figure's commands as text; NULL when memory runs out. */
static char *commands_of(plot_commands commands, const void *context) {
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return NULL;
    commands(memory, context);
    fputc('\n', memory);
    bool failed = ferror(memory) != 0;
    if (fclose(memory) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

static bool write_script(drawing *d, plot_commands commands, const void *context,
                         lab_error *error) {
    char *text = commands_of(commands, context);
    FILE *script = text ? fopen(d->script, "wx") : NULL;
    if (!script) {
        bool has_text = text != NULL;
        free(text);
        return has_text ? lab_fail_file(error, "write", d->of->path) : lab_fail_memory(error);
    }
    write_head(script, d);
    d->panels = plot_panels_ask(script, text);
    free(text);
    bool failed = ferror(script) != 0;
    if (fclose(script) != 0 || failed)
        return lab_fail_file(error, "write", d->of->path);
    return d->panels || lab_fail_memory(error);
}

/* A name that folder_lock.c knows for a temporary file's; never one that begins with a dash. A file
 * that is there already is a dead process's. */
static char *beside(const char *path, int number) {
    size_t size = strlen(path) + 48;
    char *name = malloc(size);
    if (name) {
        snprintf(name, size, "%s%s.%ld-%d.tmp", path[0] == '-' ? "./" : "", path, (long)getpid(),
                 number);
        unlink(name);
    }
    return name;
}

bool plot_draw(const plot_request *request, plot_commands commands, const void *context,
               lab_error *error) {
    const char *terminal = terminal_for(request->path);
    if (!plot_knows(request->path, error) || !terminal)
        return false;
    drawing d = {.of = request,
                 .terminal = terminal,
                 .script = beside(request->path, 1),
                 .output = beside(request->path, 2),
                 .log = beside(request->path, 3)};
    bool has_names = d.script && d.output && d.log;
    bool good = has_names ? write_script(&d, commands, context, error) && run_gnuplot(&d, error) &&
                                put_in_place(&d, error)
                          : lab_fail_memory(error);
    if (has_names) {
        unlink(d.script);
        unlink(d.log);
        unlink(d.output);
    }
    json_decref(d.panels);
    free(d.script);
    free(d.output);
    free(d.log);
    return good;
}
