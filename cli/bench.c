/*
 * `whet bench`: measures the library against the limits of the machine. This
 * file reads the command line; bench/ measures, bench_table.c and bench_json.c
 * print.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"
#include "commands.h"
#include "help.h"
#include "laboratory.h"
#include "messages.h"
#include "options.h"
#include "ranks.h"
#include "registry_words.h"
#include "results.h"
#include "suite.h"

#include "league/arms.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERANDS_MAX = 8 };

typedef struct arguments {
    text_list only, policies;
    const char *isa, *json, *mpi;
    uint64_t threads; /* 0: not given */
    bool quick;
    char **named; /* parts given as operands */
    int named_count;
} arguments;

/* Names of the parts, ended by NULL. */
static const char *const *section_words(void) {
    static const char *words[SUITE_PARTS + 1];
    for (size_t i = 0; i < SUITE_PARTS; i++)
        words[i] = bench_parts[i].name;
    return words;
}

/* Wants the part whose name has this length. */
static bool want_part(const char *name, size_t length, suite_options *options) {
    for (size_t i = 0; i < SUITE_PARTS; i++)
        if (strlen(bench_parts[i].name) == length && memcmp(bench_parts[i].name, name, length) == 0)
            return options->wanted[i] = true;
    char words[WORDS_SIZE_MAX];
    complain("unknown section '%.*s' (%s)", (int)length, name, join_words(section_words(), words));
    return false;
}

/* One name, or several with commas between. */
static bool want_parts(const char *names, suite_options *options) {
    for (;;) {
        size_t length = strcspn(names, ",");
        if (!want_part(names, length, options))
            return false;
        if (!names[length])
            return true;
        names += length + 1;
    }
}

/* Sets the parts wanted; where none is named, those that belong to such a run. */
static bool choose_parts(const arguments *given, suite_options *options) {
    for (size_t i = 0; i < SUITE_PARTS; i++)
        options->wanted[i] = given->only.count == 0 && given->named_count == 0 &&
                             (given->quick ? bench_parts[i].in_quick : bench_parts[i].in_full);
    for (size_t i = 0; i < given->only.count; i++)
        if (!want_parts(given->only.items[i], options))
            return false;
    for (int i = 0; i < given->named_count; i++)
        if (!want_parts(given->named[i], options))
            return false;
    return true;
}

/* Policies are of lm alone; arms that run other arms' models train nothing of their own. */
static bool check_policies(const arguments *given, const suite_options *options) {
    static league_arms arms; /* too large for the stack */
    lab_error error = {.kind = LAB_NO_ERROR};
    bool has_lm = false;
    arms.count = 0;
    for (size_t i = 0; i < SUITE_PARTS; i++)
        has_lm = has_lm || (options->wanted[i] && strcmp(bench_parts[i].name, "lm") == 0);
    if (given->policies.count > 0 && !has_lm) {
        complain("--policy needs the section lm");
        return false;
    }
    for (size_t i = 0; i < given->policies.count; i++) {
        if (!league_arms_add(&arms, given->policies.items[i], &error)) {
            complain("%s", error.text);
            return false;
        }
        if (league_arms_find(&arms, given->policies.items[i])->trained_as) {
            complain("--policy: '%s' trains no models of its own", given->policies.items[i]);
            return false;
        }
    }
    return true;
}

/* Must come before the library is first used, which is when it chooses. */
static bool choose_isa(const char *isa) {
    if (!isa || (setenv("WHET_ISA", isa, 1) == 0 && strcmp(whet_isa(), isa) == 0))
        return true;
    complain("--isa: %s is not available in this processor or build", isa);
    return false;
}

static size_t choose_threads(uint64_t threads) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return threads ? (size_t)threads : processors < 2 ? 1 : 2;
}

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"only", OPTION_LIST, &given->only, "SECTION",
         "section to measure, as the argument: rows, prefill, decode or backward; retrieval or lm "
         "(training, beside torch), which --quick skips unless named; skip (values left out when "
         "decoding), tune (60 steps, and a pass of a model of 1.1 billion weights) and long (a "
         "prefill of 131,072 x 131,072 and decoding over "
         "1,048,576 keys), which run only when named, as does mpi (decoding over ranks, under "
         "mpirun); several with commas, may be repeated",
         .values = VALUE_WORD, .words = section_words()},
        {"policy", OPTION_LIST, &given->policies, "NAME",
         "with lm: policy or arm of the league whose training steps and decoding are compared "
         "with softmax's; may be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        {"quick", OPTION_FLAG, &given->quick, NULL,
         "finish within 30 seconds: fewer rounds, and of attention only the sizes with a target"},
        {"threads", OPTION_AMOUNT, &given->threads, "N",
         "number of threads to compare with one (default 2)"},
        {"isa", OPTION_CHOICE, &given->isa, "NAME", "instruction set of the library: {}",
         .values = VALUE_WORD, .words = isa_words},
        mpi_option(&given->mpi),
        json_option(&given->json, JSON_SUMMARY),
    };
    const command_syntax syntax = {
        .name = "bench",
        .operands = "[SECTION...]",
        .about = "Measures the library against the limits of this machine, measured in the same\n"
                 "run: copies and reads of the same memory, multiply-adds in registers,\n"
                 "exponentials alone, and OpenBLAS's matrix products where it is installed.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "'whet bench clrs' measures instead how fast samples of CLRS-Text are generated.\n"
                "\n" BLAS_ENVIRONMENT,
        .examples = "whet bench --quick\n"
                    "whet bench rows decode --json bench.json\n"
                    "whet bench lm --policy entmax15 --policy asentmax\n"
                    "mpirun -n 2 whet bench --only mpi\n",
        .operands_limit = OPERANDS_MAX,
        .operand_values = VALUE_WORD,
        .operand_words = section_words(),
    };
    options_result result = parse_options(&syntax, argc, argv, &given->named_count);
    given->named = argv + 1;
    return result;
}

static int show(const arguments *given, const report *measured) {
    int status = given->json ? keep_table(given->json, print_bench_json, measured) : STATUS_OK;
    if (status == STATUS_OK)
        print_bench_tables(stdout, measured);
    return status;
}

static int run(const arguments *given) {
    suite_options options = {.quick = given->quick,
                             .threads = choose_threads(given->threads),
                             .mpi = given->mpi,
                             .policies = given->policies.items,
                             .policy_count = given->policies.count};
    if (!choose_parts(given, &options) || !check_policies(given, &options) ||
        !choose_isa(given->isa))
        return STATUS_MISUSE;
    static report measured;
    int status = reserve_output(&given->json, 1);
    if (status != STATUS_OK)
        return status;
    status = STATUS_FAILED;
    if (bench_run(&options, &measured))
        status = measured.is_silent ? STATUS_OK : show(given, &measured);
    else
        complain("%s", measured.error);
    bench_report_free(&measured);
    return status;
}

int command_bench(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "clrs") == 0) /* has options of its own */
        return command_bench_clrs(argc - 1, argv + 1);
    arguments given = {.only = {0}};
    options_result result = parse(argc, argv, &given);
    int status = result == OPTIONS_GIVEN ? run(&given) : options_status(result);
    free(given.only.items);
    free(given.policies.items);
    return status;
}
