/* `whet lm generate`: text as it comes, and on request how sharp each head was meanwhile. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "laboratory.h"

#include "base/files.h"
#include "base/signals.h"
#include "base/table.h"
#include "lm/generate.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "lm generate";

enum { PROMPT_SIZE_MAX = 1 << 26 };

typedef struct arguments {
    const char *path, *prompt, *prompt_file, *policy, *tokenizer, *cache, *rope;
    uint64_t steps, seed, threads;
    double temperature;
    bool entropy, speed;
} arguments;

static options_result parse(int argc, char **argv, arguments *given, int *operands) {
    const option_spec options[] = {
        {"prompt", OPTION_TEXT, &given->prompt, "TEXT", "what to go on with (default: nothing)"},
        {"prompt-file", OPTION_TEXT, &given->prompt_file, "FILE", "the same from a file"},
        {"steps", OPTION_UNSIGNED, &given->steps, "N",
         "tokens at most (default 256); the model's context may end sooner"},
        {"temperature", OPTION_NUMBER, &given->temperature, "T",
         "draw tokens from softmax(logits / T); 0, the default: always the likeliest"},
        {"seed", OPTION_UNSIGNED, &given->seed, "S", "draw others (default 0)"},
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "in every head (see 'whet policies'), instead of what the model was trained with"},
        {"tokenizer", OPTION_TEXT, &given->tokenizer, "FILE",
         "of llama2.c's (default: tokN.bin or tokenizer.bin beside the model)"},
        {"cache", OPTION_TEXT, &given->cache, "TYPE",
         "keep keys and values as f32 (default) or f16"},
        {"rope", OPTION_TEXT, &given->rope, "SCALING",
         "stretch positions to a longer context: linear:F, ntk:F or yarn:F with a factor F;\n"
         "none: as trained (default: as the model's file has it)"},
        {"entropy", OPTION_FLAG, &given->entropy, NULL,
         "then print the mean entropy of each head in nats, over the tokens written"},
        {"speed", OPTION_FLAG, &given->speed, NULL, "then say how fast it was, on standard error"},
        threads_option(&given->threads),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL",
        .about = "Reads a prompt and writes what the model has to say, as it comes. MODEL is a\n"
                 "folder of 'whet lm train', a checkpoint of 'whet lm', a GGUF file (llama or\n"
                 "gemma), or one of llama2.c.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more =
            "example:\n"
            "  whet lm generate stories260K.bin --prompt 'Once upon a time' --policy adaptive\n",
        .operands_limit = 1,
    };
    options_result result = parse_options(&syntax, argc, argv, operands);
    given->path = result == OPTIONS_GIVEN && *operands ? argv[1] : NULL;
    return result;
}

/* The prompt, printed once it is known to be one that the model can read. */
typedef struct prompt_text {
    const char *text;
    size_t length;
    bool is_printed;
} prompt_text;

static void print_prompt(prompt_text *prompt) {
    if (!prompt->is_printed)
        fwrite(prompt->text, 1, prompt->length, stdout);
    prompt->is_printed = true;
}

static bool print_text(void *context, lm_token token, const char *text, size_t length) {
    (void)token;
    print_prompt(context);
    fwrite(text, 1, length, stdout);
    return fflush(stdout) == 0 && !lab_interrupted();
}

static void add_number(lab_table *table, double value) {
    if (isfinite(value))
        lab_table_add(table, "%.4f", value);
    else
        lab_table_add(table, "-");
}

static bool print_entropies(const lm_config *c, const lm_entropy *entropies) {
    lab_table table = lab_table_start(5);
    static const char *const titles[] = {"layer", "head", "entropy", "after", "rows"};
    for (size_t i = 0; i < 5; i++)
        lab_table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < (size_t)c->layers * c->heads; i++) {
        double rows = (double)entropies[i].rows;
        lab_table_add(&table, "%zu", i / c->heads);
        lab_table_add(&table, "%zu", i % c->heads);
        add_number(&table, entropies[i].before / rows);
        add_number(&table, entropies[i].after / rows);
        lab_table_add(&table, "%.0f", rows);
    }
    return lab_table_finish(&table, stdout);
}

static int finish(const arguments *given, const lm_opened *opened, const lm_generated *result) {
    putchar('\n');
    fflush(stdout);
    if (result->has_ended && result->tokens <= 1)
        complain("%s: the model ended at once; one that was made for chats wants its template "
                 "around the prompt",
                 name);
    if (given->entropy) {
        putchar('\n');
        if (!print_entropies(&opened->model.config, result->entropies))
            return complain_of_memory();
    }
    if (given->speed)
        fprintf(stderr, "%zu tokens read at %.0f a second, %zu written at %.0f a second\n",
                result->prompt_tokens, (double)result->prompt_tokens / result->read_seconds,
                result->tokens, (double)result->tokens / result->write_seconds);
    return lab_interrupted() ? STATUS_STOPPED : STATUS_OK;
}

static int generate(const arguments *given, const whet_policy *policy, const char *prompt,
                    size_t prompt_length) {
    laboratory lab;
    lm_opened opened;
    lm_generated result;
    lab_error error = {.kind = LAB_NO_ERROR};
    /* The model first: a path that leads nowhere needs no BLAS to be told. */
    if (!lm_open(given->path, given->tokenizer, &opened, &error) ||
        (given->rope && !lm_rope_scale(&opened.model.config, given->rope, &error))) {
        lm_opened_free(&opened);
        return report_lab_error(name, &error);
    }
    if (!open_laboratory(&lab, given->threads, NULL)) {
        lm_opened_free(&opened);
        return report_lab_error(name, &lab.error);
    }
    prompt_text shown = {prompt, prompt_length, false};
    lm_generate_request request = {.opened = &opened,
                                   .engine = &lab.engine,
                                   .executor = &lab.executor,
                                   .policy = policy,
                                   .cache_type =
                                       strcmp(given->cache, "f16") == 0 ? WHET_F16 : WHET_F32,
                                   .prompt = prompt,
                                   .prompt_length = prompt_length,
                                   .steps = (size_t)given->steps,
                                   .temperature = given->temperature,
                                   .seed = given->seed,
                                   .measures = given->entropy,
                                   .take = print_text,
                                   .context = &shown};
    lab_catch_interrupts();
    bool good = lm_generate(&request, &result, &error);
    if (good)
        print_prompt(&shown);
    int status = good ? finish(given, &opened, &result) : report_lab_error(name, &error);
    free(result.entropies);
    close_laboratory(&lab);
    lm_opened_free(&opened);
    return status;
}

static int check_and_generate(const arguments *given) {
    whet_policy policy;
    char message[200];
    if (given->policy &&
        whet_policy_parse(given->policy, &policy, message, sizeof message) != WHET_OK) {
        complain("%s: --policy: %s", name, message);
        return STATUS_MISUSE;
    }
    if (strcmp(given->cache, "f32") != 0 && strcmp(given->cache, "f16") != 0) {
        complain("%s: --cache: '%s' is neither f32 nor f16", name, given->cache);
        return STATUS_MISUSE;
    }
    if (given->temperature < 0) {
        complain("%s: --temperature: %g is below 0", name, given->temperature);
        return STATUS_MISUSE;
    }
    if (given->prompt && given->prompt_file) {
        complain("%s: --prompt and --prompt-file cannot be had together", name);
        return STATUS_MISUSE;
    }
    lab_error error = {.kind = LAB_NO_ERROR};
    const char *prompt = given->prompt ? given->prompt : "";
    size_t length = strlen(prompt);
    char *file = NULL;
    if (given->prompt_file) {
        file = lab_read_text(given->prompt_file, PROMPT_SIZE_MAX, &length, &error);
        if (!file)
            return report_lab_error(name, &error);
    }
    int status = generate(given, given->policy ? &policy : NULL, file ? file : prompt, length);
    free(file);
    return status;
}

int lm_generate_command(int argc, char **argv) {
    arguments given = {.cache = "f32", .steps = 256};
    int operands = 0;
    options_result parsed = parse(argc, argv, &given, &operands);
    if (parsed != OPTIONS_GIVEN)
        return options_status(parsed);
    if (operands == 0) {
        complain("%s: which model? Name a checkpoint, a GGUF file, or one of llama2.c", name);
        return point_to_help(name);
    }
    return check_and_generate(&given);
}
