/* `whet lm generate`: text as it comes, and on request how sharp each head was meanwhile. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "policy_list.h"
#include "preferences.h"
#include "registry_words.h"
#include "laboratory.h"

#include "base/files.h"
#include "base/signals.h"
#include "base/table.h"
#include "lm/generate.h"
#include "lm/policy_file.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "lm generate";

enum { PROMPT_SIZE_MAX = 1 << 26 };

static const char *const cache_types[] = {"f32", "f16", NULL};

typedef struct arguments {
    const char *path, *prompt, *prompt_file, *policy, *config, *tokenizer, *cache, *rope;
    uint64_t tokens, seed, threads;
    double temperature;
    bool entropy, speed;
} arguments;

static options_result parse(int argc, char **argv, arguments *given, int *operands) {
    const option_spec options[] = {
        OPTIONS_ABOUT("text"),
        {"prompt", OPTION_TEXT, &given->prompt, "TEXT", "text to continue (default: none)"},
        {"prompt-file", OPTION_TEXT, &given->prompt_file, "FILE", "file with the text to continue",
         .values = VALUE_FILE},
        {"tokens", OPTION_UNSIGNED, &given->tokens, "N",
         "maximum number of tokens to generate (default 256), within the model's context",
         .aliases = "steps"},
        {"temperature", OPTION_NUMBER, &given->temperature, "T",
         "temperature for drawing tokens from softmax(logits / T) (default 0: always the "
         "likeliest)"},
        seed_option(&given->seed, "seed of the drawing (default 1)"),
        OPTIONS_ABOUT("model"),
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "policy in every head (see 'whet policies'; default: that of its training)",
         .values = VALUE_WORD, .words = policy_words()},
        {"config", OPTION_TEXT, &given->config, "FILE",
         "file with policies by layer and head, such as 'whet tune' writes", .values = VALUE_FILE},
        {"tokenizer", OPTION_TEXT, &given->tokenizer, "FILE",
         "tokenizer of a llama2.c model (default: tokN.bin or tokenizer.bin beside the model)",
         .values = VALUE_FILE},
        {"cache", OPTION_CHOICE, &given->cache, "TYPE",
         "type of cached keys and values: {} (default f32)", .values = VALUE_WORD,
         .words = cache_types},
        rope_option(&given->rope),
        OPTIONS_ABOUT("measurements"),
        {"entropy", OPTION_FLAG, &given->entropy, NULL,
         "print each head's mean entropy in nats over the generated tokens"},
        {"speed", OPTION_FLAG, &given->speed, NULL, "print the speed on standard error"},
        threads_option(&given->threads),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL",
        .about = "Continues a prompt and prints the text as it is generated. MODEL is a folder of\n"
                 "'whet lm train', a whet checkpoint, a GGUF file (llama, qwen, gemma) or a\n"
                 "llama2.c model.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples =
            "whet lm generate stories260K.bin --prompt 'Once upon a time' --policy adaptive\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_FILE,
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
    if (result->has_ended && result->tokens <= 1 && !preferred.quiet)
        complain("the model ended at once; chat models need their template around the prompt");
    if (given->entropy) {
        putchar('\n');
        if (!print_entropies(&opened->model.config, result->entropies))
            return complain_of_memory();
    }
    if (given->speed)
        fprintf(stderr, "%zu tokens read at %.0f per second, %zu generated at %.0f per second\n",
                result->prompt_tokens, (double)result->prompt_tokens / result->read_seconds,
                result->tokens, (double)result->tokens / result->write_seconds);
    return lab_interrupted() ? STATUS_STOPPED : STATUS_OK;
}

/* The policies of all heads from a file, to be freed whatever this returns. */
static bool read_policies(const char *path, const lm_config *config, whet_policy **policies,
                          lab_error *error) {
    *policies = calloc((size_t)config->layers * config->heads, sizeof **policies);
    return *policies ? lm_policy_file_read(path, config->layers, config->heads, *policies, error)
                     : lab_fail_memory(error);
}

static int generate(const arguments *given, const whet_policy *policy, const char *prompt,
                    size_t prompt_length) {
    laboratory lab;
    lm_opened opened;
    lm_generated result;
    lab_error error = {.kind = LAB_NO_ERROR};
    /* The model first: a wrong path is reported without a BLAS. */
    if (!lm_open(given->path, given->tokenizer, &opened, &error) ||
        (given->rope && !lm_rope_scale(&opened.model.config, given->rope, &error))) {
        lm_opened_free(&opened);
        return report_lab_error(&error);
    }
    whet_policy *policies = NULL;
    if (given->config && !read_policies(given->config, &opened.model.config, &policies, &error)) {
        free(policies);
        lm_opened_free(&opened);
        return report_lab_error(&error);
    }
    if (!open_laboratory(&lab, given->threads, NULL)) {
        free(policies);
        lm_opened_free(&opened);
        return report_lab_error(&lab.error);
    }
    prompt_text shown = {prompt, prompt_length, false};
    lm_generate_request request = {.opened = &opened,
                                   .engine = &lab.engine,
                                   .executor = &lab.executor,
                                   .policy = policy,
                                   .policies = policies,
                                   .cache_type =
                                       strcmp(given->cache, "f16") == 0 ? WHET_F16 : WHET_F32,
                                   .prompt = prompt,
                                   .prompt_length = prompt_length,
                                   .steps = (size_t)given->tokens,
                                   .temperature = given->temperature,
                                   .seed = given->seed,
                                   .measures = given->entropy,
                                   .take = print_text,
                                   .context = &shown};
    lab_catch_interrupts();
    bool good = lm_generate(&request, &result, &error);
    if (good)
        print_prompt(&shown);
    int status = good ? finish(given, &opened, &result) : report_lab_error(&error);
    free(result.entropies);
    free(policies);
    close_laboratory(&lab);
    lm_opened_free(&opened);
    return status;
}

static int check_and_generate(const arguments *given) {
    whet_policy policy;
    char message[POLICY_REASON_SIZE];
    if (given->policy &&
        whet_policy_parse(given->policy, &policy, message, sizeof message) != WHET_OK)
        return refuse_policy(given->policy, message);
    if (given->temperature < 0) {
        return refuse_range("temperature", given->temperature, "0 or more");
    }
    if (given->policy && given->config) {
        return refuse_together("policy", "config");
    }
    if (given->prompt && given->prompt_file) {
        return refuse_together("prompt", "prompt-file");
    }
    lab_error error = {.kind = LAB_NO_ERROR};
    const char *prompt = given->prompt ? given->prompt : "";
    size_t length = strlen(prompt);
    char *file = NULL;
    if (given->prompt_file) {
        file = lab_read_text(given->prompt_file, PROMPT_SIZE_MAX, &length, &error);
        if (!file)
            return report_lab_error(&error);
    }
    int status = generate(given, given->policy ? &policy : NULL, file ? file : prompt, length);
    free(file);
    return status;
}

int lm_generate_command(int argc, char **argv) {
    arguments given = {.cache = "f32", .tokens = 256, .seed = SEED_DEFAULT};
    int operands = 0;
    options_result parsed = parse(argc, argv, &given, &operands);
    if (parsed != OPTIONS_GIVEN)
        return options_status(parsed);
    return check_and_generate(&given);
}
