/* `whet lm import` and `whet lm export`: models from one kind of file to another. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "preferences.h"
#include "results.h"
#include "text.h"

#include "base/files.h"
#include "lm/gguf_model.h"
#include "lm/open.h"
#include "lm/rope_scaling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The paths of a conversion: two operands, or one and --out; `tokenizer` and `rope` may be NULL. */
typedef struct conversion {
    const char *from, *to, *tokenizer, *rope;
} conversion;

static option_spec out_option(conversion *of) {
    return (option_spec){"out",
                         OPTION_TEXT,
                         &of->to,
                         "FILE",
                         "file to write, instead of the argument",
                         .letter = 'o',
                         .values = VALUE_FILE};
}

static option_spec tokenizer_option(conversion *of) {
    return (option_spec){"tokenizer",
                         OPTION_TEXT,
                         &of->tokenizer,
                         "FILE",
                         "tokenizer of a llama2.c model (default: tokN.bin or tokenizer.bin beside "
                         "the model)",
                         .values = VALUE_FILE};
}

/* The options and the operands; false where the command is to end with *status. */
static bool parse_paths(const command_syntax *syntax, int argc, char **argv, conversion *of,
                        int *status) {
    int operands = 0;
    options_result parsed = parse_options(syntax, argc, argv, &operands);
    *status = options_status(parsed);
    if (parsed != OPTIONS_GIVEN)
        return false;
    if (operands == (of->to ? 1 : 2)) {
        of->from = argv[1];
        of->to = of->to ? of->to : argv[2];
        return true;
    }
    if (operands == 2)
        complain("two output files given: '%s' and '%s'", of->to, argv[2]);
    else
        complain_of_missing(syntax, operands);
    *status = STATUS_MISUSE;
    return false;
}

/* "A model of 260,032 weights: 5 layers of width 64 ..." */
static void describe(const lm_opened *opened, const char *to) {
    const lm_config *c = &opened->model.config;
    char weights[NUMBER_SIZE], tokens[NUMBER_SIZE];
    printf("%s: %s weights in %u layers of width %u, %u heads on %u, %s tokens, a context of %u\n",
           to, grouped(opened->model.layout.count, weights), c->layers, c->width, c->heads,
           c->key_heads, grouped(c->vocabulary, tokens), c->context);
}

/* Writes an opened model. */
typedef bool (*model_writer)(const lm_opened *opened, const char *path, const void *context,
                             lab_error *error);

static bool open_source(const conversion *of, const char *file, lm_opened *opened,
                        lab_error *error) {
    return lm_open(file, of->tokenizer, opened, error) &&
           (!of->rope || lm_rope_scale(&opened->model.config, of->rope, error));
}

static int convert(const conversion *of, model_writer write, const void *context) {
    int status = reserve_output(&of->to, 1);
    if (status != STATUS_OK)
        return status;
    lm_opened opened = {.is_clrs = false};
    lab_error error = {.kind = LAB_NO_ERROR};
    char *file = lm_model_file(of->from, &error);
    bool is_same = file && lab_is_same_file(file, of->to);
    bool good = file && !is_same && open_source(of, file, &opened, &error) &&
                write(&opened, of->to, context, &error);
    free(file);
    if (is_same) {
        complain("%s: is the model itself and would be overwritten; choose another output file",
                 of->to);
        return STATUS_MISUSE;
    }
    if (good && !preferred.quiet)
        describe(&opened, of->to);
    lm_opened_free(&opened);
    return good ? STATUS_OK : report_lab_error(&error);
}

static bool write_checkpoint(const lm_opened *opened, const char *path, const void *context,
                             lab_error *error) {
    (void)context;
    return lm_store(path, opened, error);
}

int lm_import_command(int argc, char **argv) {
    conversion of = {.from = NULL};
    const option_spec options[] = {out_option(&of), tokenizer_option(&of)};
    const command_syntax syntax = {
        .name = "lm import",
        .operands = "MODEL CHECKPOINT",
        .about = "Reads a GGUF file (llama, qwen, gemma; f32, f16, bf16, q8_0 and other types) or\n"
                 "a llama2.c model, and writes it with its tokenizer as a whet checkpoint.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet lm import stories260K.bin stories260K.ckpt\n",
        .operands_limit = 2,
        .operand_values = VALUE_FILE,
    };
    int status = STATUS_OK;
    if (!parse_paths(&syntax, argc, argv, &of, &status))
        return status;
    return convert(&of, write_checkpoint, NULL);
}

typedef struct gguf_choice {
    gguf_type type;
    const char *name;
} gguf_choice;

static bool write_gguf(const lm_opened *opened, const char *path, const void *context,
                       lab_error *error) {
    const gguf_choice *choice = context;
    return lm_gguf_write(path, &opened->model, &opened->tokenizer, choice->type, choice->name,
                         error);
}

static const gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0};
enum { TYPES = sizeof types / sizeof *types };

static const char *const *type_words(void) {
    static const char *words[TYPES + 1];
    for (size_t i = 0; i < TYPES; i++)
        words[i] = gguf_type_name(types[i]);
    return words;
}

int lm_export_command(int argc, char **argv) {
    conversion of = {.from = NULL};
    const char *type = "f32";
    gguf_choice choice = {GGUF_F32, "whet"};
    const option_spec options[] = {
        out_option(&of),
        {"type", OPTION_CHOICE, &type, "TYPE",
         "type of the matrices: {} (default f32); other tensors are f32", .values = VALUE_WORD,
         .words = type_words()},
        {"name", OPTION_TEXT, &choice.name, "TEXT", "name of the model in the file (default whet)"},
        rope_option(&of.rope),
        tokenizer_option(&of),
    };
    const command_syntax syntax = {
        .name = "lm export",
        .operands = "MODEL FILE",
        .about =
            "Writes a model as GGUF for llama.cpp: as 'llama' if its gates use silu, as 'gemma'\n"
            "if they use gelu. The policy it was trained with is stored as \"whet.policy\",\n"
            "which other programs ignore.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "MODEL may be a folder of 'whet lm train'; FILE '-' is standard output.\n",
        .examples = "whet lm export run model.gguf --type q8_0\n",
        .operands_limit = 2,
        .operand_values = VALUE_FILE,
    };
    int status = STATUS_OK;
    if (!parse_paths(&syntax, argc, argv, &of, &status))
        return status;
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(gguf_type_name(types[i]), type) == 0)
            choice.type = types[i];
    return convert(&of, write_gguf, &choice);
}
