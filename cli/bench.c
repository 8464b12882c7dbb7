/*
 * `whet bench`: measures the library against the limits of the machine. This
 * file reads the command line; bench/ measures, bench_table.c and bench_json.c
 * print.
 */
#define _POSIX_C_SOURCE 200809L

#include "base/atomic_file.h"
#include "bench.h"
#include "commands.h"
#include "messages.h"
#include "options.h"
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERANDS_MAX = 8 };

typedef struct arguments {
    text_list only;
    const char *isa;
    uint64_t threads; /* 0: not given */
    bool quick;
    bool as_json;
    const char *json_path;           /* NULL: standard output */
    const char *named[OPERANDS_MAX]; /* parts named without --only */
    size_t named_count;
} arguments;

static const char part_names[] = "rows, prefill, decode, backward, retrieval, lm and long";

/* The place of a part among bench_parts; SUITE_PARTS where there is none of that name. */
static size_t find_part(const char *name) {
    size_t i = 0;
    while (i < SUITE_PARTS && strcmp(name, bench_parts[i].name) != 0)
        i++;
    return i;
}

/* Sets the parts wanted; where none is named, those that belong to such a run. */
static bool choose_parts(const arguments *given, suite_options *options) {
    for (size_t i = 0; i < SUITE_PARTS; i++)
        options->wanted[i] = given->only.count + given->named_count == 0 &&
                             (given->quick ? bench_parts[i].in_quick : bench_parts[i].in_full);
    for (size_t i = 0; i < given->only.count; i++) {
        size_t part = find_part(given->only.items[i]);
        if (part == SUITE_PARTS) {
            complain("bench: --only: '%s' is none of %s", given->only.items[i], part_names);
            return false;
        }
        options->wanted[part] = true;
    }
    for (size_t i = 0; i < given->named_count; i++)
        options->wanted[find_part(given->named[i])] = true;
    return true;
}

static const char set_names[] =
#define WHET_SET(name, target, flags, condition) ", " #name
#include "isa/sets.def"
    ;

/* Must come before the library is first used, which is when it chooses. */
static bool choose_isa(const char *isa) {
    if (!isa)
        return true;
    if (setenv("WHET_ISA", isa, 1) == 0 && strcmp(whet_isa(), isa) == 0)
        return true;
    static const char *const known[] = {
#define WHET_SET(name, target, flags, condition) #name,
#include "isa/sets.def"
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(isa, known[i]) == 0) {
            complain("bench: --isa: this processor, or this build, does not have %s", isa);
            return false;
        }
    complain("bench: --isa: '%s' is none of %s", isa, set_names + 2);
    return false;
}

static size_t choose_threads(uint64_t threads) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return threads ? (size_t)threads : processors < 2 ? 1 : 2;
}

static const char isa_help[] = "the library's instruction set:"
#define WHET_SET(name, target, flags, condition) " " #name
#include "isa/sets.def"
    ;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"only", OPTION_LIST, &given->only, "SECTION",
         "rows, prefill, decode or backward; retrieval or lm (training, beside torch),\n"
         "which a quick run leaves out otherwise; or long, which every run leaves\n"
         "out otherwise: a prefill of 131072 x 131072 and decoding over 1048576\n"
         "keys; may be repeated"},
        {"quick", OPTION_FLAG, &given->quick, NULL,
         "be done in less than 30 seconds: as many rounds as there is time for, and\n"
         "of attention only the sizes with a bar"},
        {"json", OPTION_FLAG, &given->as_json, NULL,
         "print JSON instead of tables, or, with a FILE other than '-', write it\n"
         "there beside the tables"},
        {"threads", OPTION_AMOUNT, &given->threads, "N",
         "how many threads to compare with one (default 2)"},
        {"isa", OPTION_TEXT, &given->isa, "NAME", isa_help},
    };
    const command_syntax syntax = {
        .name = "bench",
        .operands = "[SECTION]... [FILE]",
        .about = "Measures the library against the limits of this machine, taken in the same run:\n"
                 "copies and reads of the same memory, multiply-adds in registers, exponentials\n"
                 "alone, and the products by OpenBLAS where that is installed.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "'whet bench clrs' measures how fast samples of CLRS-Text are made instead.\n"
                "WHET_BLAS names another library with cblas_sgemm; OPENBLAS_CORETYPE chooses the\n"
                "kernels of OpenBLAS.\n",
        .operands_limit = OPERANDS_MAX,
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return result;
    for (int i = 1; i <= operands; i++) {
        if (find_part(argv[i]) < SUITE_PARTS) {
            given->named[given->named_count++] = argv[i];
        } else if (given->as_json && is_standard_output(argv[i])) {
            continue; /* where it goes in any case */
        } else if (given->as_json && !given->json_path) {
            given->json_path = argv[i];
        } else {
            complain("bench: '%s' is none of %s; for a file: --json FILE", argv[i], part_names);
            return OPTIONS_MISUSED;
        }
    }
    return OPTIONS_GIVEN;
}

static int show(const arguments *given, const report *measured) {
    if (!given->as_json || given->json_path)
        print_bench_tables(stdout, measured);
    if (given->as_json && !given->json_path)
        print_bench_json(stdout, measured);
    if (!given->json_path || replace_file(given->json_path, print_bench_json, measured))
        return STATUS_OK;
    complain("cannot write %s: %s", given->json_path, strerror(errno));
    return STATUS_FAILED;
}

static int run(const arguments *given) {
    suite_options options = {.quick = given->quick, .threads = choose_threads(given->threads)};
    if (!choose_parts(given, &options) || !choose_isa(given->isa))
        return STATUS_MISUSE;
    static report measured;
    int status = STATUS_FAILED;
    if (bench_run(&options, &measured))
        status = show(given, &measured);
    else
        complain("bench: %s", measured.error);
    bench_report_free(&measured);
    return status;
}

int command_bench(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "clrs") == 0)
        return command_bench_clrs(argc - 1, argv + 1);
    arguments given = {.only = {0}};
    options_result result = parse(argc, argv, &given);
    int status = result == OPTIONS_GIVEN ? run(&given) : options_status(result);
    free(given.only.items);
    return status;
}
