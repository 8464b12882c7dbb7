/*
 * Runs gnuplot on a script that is kept in a temporary file, draws into another
 * and puts that in its place. The script's head fixes everything that should
 * look the same in every figure.
 */
#include "report/plot.h"
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
           lab_fail(error, LAB_INPUT, "%s: a figure is written as .svg or .png", path);
}

static void write_head(FILE *script, const char *terminal, const char *output, int width,
                       int height) {
    bool is_svg = strcmp(terminal, "svg") == 0;
    fprintf(script, "set terminal %s size %d,%d font 'DejaVu Sans,%d' background '#ffffff'%s\n",
            terminal, width, height, is_svg ? 13 : 11, is_svg ? " dynamic" : "");
    fprintf(script, "set output '%s'\nset encoding utf8\n", output);
    fputs("set border 3 lc '#666666'\nset tics nomirror out tc '#333333'\n"
          "set grid lc '#dddddd' lt 1 lw 0.6\nset key tc '#333333' samplen 2 Left reverse opaque\n",
          script);
    for (int i = 0; i < PLOT_STYLES; i++)
        fprintf(script, "set style line %d lc '%s' lw 2 pt %d ps %s dt %d\n", i + 1,
                colours[i % COLOURS], i < COLOURS ? 7 : 2, i < COLOURS ? "0.5" : "0.8",
                i < COLOURS ? 1 : 2);
}

/* The first line of what gnuplot said, without its prompt. */
static void first_complaint(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    while (file && fgets(text, (int)size, file)) {
        text[strcspn(text, "\n")] = '\0';
        if (text[strspn(text, " \t^")] != '\0' && !strstr(text, "gnuplot>"))
            break;
    }
    if (file)
        fclose(file);
}

extern char **environ;

static bool run_gnuplot(const char *script, const char *log, lab_error *error) {
    char program[] = "gnuplot";
    char *path = strdup(script);
    if (!path)
        return lab_fail_memory(error);
    char *arguments[] = {program, path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason == 0) {
        reason =
            posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (reason == 0)
            reason = posix_spawnp(&child, program, &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(path);
    if (reason != 0)
        return lab_fail(error, LAB_SYSTEM,
                        "cannot run gnuplot (%s); Debian's package is gnuplot-nox",
                        strerror(reason));
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return lab_fail(error, LAB_SYSTEM, "lost gnuplot: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    char complaint[256];
    first_complaint(log, complaint, sizeof complaint);
    return lab_fail(error, LAB_SYSTEM, "gnuplot failed: %s", complaint);
}

/* gnuplot does not notice a full disk; a picture that is whole ends as its kind does. */
static bool is_whole(const char *path, const char *terminal, lab_error *error) {
    static const char svg_end[] = "</svg>", png_end[] = "IEND";
    const char *wanted = strcmp(terminal, "svg") == 0 ? svg_end : png_end;
    char tail[32] = "";
    FILE *file = fopen(path, "rb");
    if (!file)
        return lab_fail_file(error, "write", path);
    size_t size = 0;
    if (fseek(file, -16, SEEK_END) == 0)
        size = fread(tail, 1, sizeof tail - 1, file);
    fclose(file);
    size_t length = strlen(wanted);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(tail + i, wanted, length) == 0)
            return true;
    return lab_fail(error, LAB_SYSTEM, "cannot write %s: gnuplot left it incomplete", path);
}

static bool write_script(const char *path, const char *terminal, const char *output, int width,
                         int height, plot_commands commands, const void *context,
                         lab_error *error) {
    FILE *script = fopen(path, "w");
    if (!script)
        return lab_fail_file(error, "write", path);
    write_head(script, terminal, output, width, height);
    commands(script, context);
    fputs("\nunset output\n", script);
    bool failed = ferror(script) != 0;
    if (fclose(script) != 0 || failed)
        return lab_fail_file(error, "write", path);
    return true;
}

bool plot_draw(const char *path, int width, int height, plot_commands commands, const void *context,
               lab_error *error) {
    const char *terminal = terminal_for(path);
    if (!plot_knows(path, error))
        return false;
    char script[4096], output[4096], log[4096];
    int length = snprintf(output, sizeof output, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || length >= (int)sizeof output - 8 || strchr(output, '\''))
        return lab_fail(error, LAB_INPUT, "%s: no such name for a figure", path);
    snprintf(script, sizeof script, "%.4080s.plot", output);
    snprintf(log, sizeof log, "%.4080s.log", output);
    bool good = write_script(script, terminal, output, width, height, commands, context, error) &&
                run_gnuplot(script, log, error) && is_whole(output, terminal, error);
    if (good && rename(output, path) != 0)
        good = lab_fail_file(error, "write", path);
    unlink(script);
    unlink(log);
    unlink(output);
    return good;
}
