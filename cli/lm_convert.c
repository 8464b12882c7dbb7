/* `whet lm import` and `whet lm export`: models from one kind of file to another. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "results.h"
#include "text.h"

#include "base/files.h"
#include "lm/gguf_model.h"
#include "lm/open.h"
#include "lm/rope_scaling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int misuse(const char *name, const char *why) {
    complain("%s: %s", name, why);
    return point_to_help(name);
}

/* The options and the two operands; false where the command is to end with *status. */
static bool parse_paths(const command_syntax *syntax, int argc, char **argv, int *status) {
    int operands = 0;
    options_result parsed = parse_options(syntax, argc, argv, &operands);
    *status = options_status(parsed);
    if (parsed != OPTIONS_GIVEN || operands == 2)
        return parsed == OPTIONS_GIVEN;
    *status = misuse(syntax->name, "which model, and where to?");
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

/* Opens, writes by `write`, says what it was. */
typedef bool (*model_writer)(const lm_opened *opened, const char *path, const void *context,
                             lab_error *error);

/* What to open, and how: `rope` (of --rope) and `tokenizer` may be NULL. */
typedef struct model_source {
    const char *path, *tokenizer, *rope;
} model_source;

static bool open_source(const model_source *from, const char *file, lm_opened *opened,
                        lab_error *error) {
    return lm_open(file, from->tokenizer, opened, error) &&
           (!from->rope || lm_rope_scale(&opened->model.config, from->rope, error));
}

static int convert(const char *name, const model_source *from, const char *to, model_writer write,
                   const void *context) {
    int status = reserve_output(name, &to, 1);
    if (status != STATUS_OK)
        return status;
    lm_opened opened = {.is_clrs = false};
    lab_error error = {.kind = LAB_NO_ERROR};
    char *file = lm_model_file(from->path, &error);
    bool is_same = file && lab_is_same_file(file, to);
    bool good = file && !is_same && open_source(from, file, &opened, &error) &&
                write(&opened, to, context, &error);
    free(file);
    if (is_same)
        return misuse(name, "the model would be overwritten by what is made of it");
    if (good)
        describe(&opened, to);
    lm_opened_free(&opened);
    return good ? STATUS_OK : report_lab_error(name, &error);
}

static bool write_checkpoint(const lm_opened *opened, const char *path, const void *context,
                             lab_error *error) {
    (void)context;
    return lm_store(path, opened, error);
}

int lm_import_command(int argc, char **argv) {
    static const char name[] = "lm import";
    model_source from = {.tokenizer = NULL};
    const option_spec options[] = {
        {"tokenizer", OPTION_TEXT, &from.tokenizer, "FILE",
         "of llama2.c's (default: tokN.bin or tokenizer.bin beside the model)"},
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL CHECKPOINT",
        .about = "Reads a GGUF file (llama or gemma; f32, f16, bf16, q8_0 and other types) or one\n"
                 "of llama2.c, and writes it, tokenizer and all, as a checkpoint of whet's.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "example:\n  whet lm import stories260K.bin stories260K.ckpt\n",
        .operands_limit = 2,
    };
    int status = STATUS_OK;
    if (!parse_paths(&syntax, argc, argv, &status))
        return status;
    from.path = argv[1];
    return convert(name, &from, argv[2], write_checkpoint, NULL);
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

static bool find_type(const char *text, gguf_type *type) {
    static const gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(gguf_type_name(types[i]), text) == 0) {
            *type = types[i];
            return true;
        }
    return false;
}

int lm_export_command(int argc, char **argv) {
    static const char name[] = "lm export";
    const char *type = "f32";
    model_source from = {.tokenizer = NULL};
    gguf_choice choice = {GGUF_F32, "whet"};
    const option_spec options[] = {
        {"type", OPTION_TEXT, &type, "TYPE",
         "of matrices: f32 (the default), f16, bf16 or q8_0; other tensors are f32"},
        {"name", OPTION_TEXT, &choice.name, "TEXT", "the model's name in the file (default: whet)"},
        {"rope", OPTION_TEXT, &from.rope, "SCALING",
         "stretch positions to a longer context, as in 'whet lm generate'"},
        {"tokenizer", OPTION_TEXT, &from.tokenizer, "FILE",
         "of llama2.c's, as in 'whet lm import'"},
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL FILE",
        .about =
            "Writes a model as GGUF for llama.cpp: one with silu in its gates as 'llama', one\n"
            "with gelu as 'gemma'. The policy it was trained with goes along as\n"
            "\"whet.policy\", which others pass over.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "MODEL may be a folder of 'whet lm train'; FILE '-' is standard output.\n\n"
                "example:\n  whet lm export run model.gguf --type q8_0\n",
        .operands_limit = 2,
    };
    int status = STATUS_OK;
    if (!parse_paths(&syntax, argc, argv, &status))
        return status;
    if (!find_type(type, &choice.type)) {
        complain("%s: --type: '%s' is none of f32, f16, bf16 and q8_0", name, type);
        return STATUS_MISUSE;
    }
    from.path = argv[1];
    return convert(name, &from, argv[2], write_gguf, &choice);
}
