/* The recipes and how one is run. */
#include "retrieval/beyond.h"

#include "base/files.h"
#include "retrieval/train.h"

#include <stdlib.h>

/* Both paths start from the paper's head on inputs that are not rounded. beta = n / 16 keeps the
 * sharpness that the head had at the largest training size, and is not a hard policy. */
static retrieval_recipe plain(void) {
    retrieval_recipe recipe = {
        .name = "plain",
        .path = "a",
        .change = "the paper's head, inputs in f32",
        .config = retrieval_config_default(),
        .policies = {"linear:16", "softmax", "adaptive", "target:0.5:cap=4096", "hardmax"}};
    recipe.config.precision = RETRIEVAL_F32;
    recipe.config.steps = 20000;
    return recipe;
}

static retrieval_recipe falling(void) {
    retrieval_recipe recipe = plain();
    recipe.name = "falling";
    recipe.change = "a learning rate that falls to zero";
    recipe.config.rate_end = 0;
    return recipe;
}

static retrieval_recipe leak(void) {
    retrieval_recipe recipe = falling();
    recipe.name = "leak";
    recipe.change = "a penalty on logits that tell classes apart";
    recipe.config.leak = 0.01;
    return recipe;
}

static retrieval_recipe blind(void) {
    retrieval_recipe recipe = plain();
    recipe.name = "blind";
    recipe.path = "b";
    recipe.change = "the paper's head with keys that do not see the class";
    recipe.config.key_sees_class = false;
    return recipe;
}

static retrieval_recipe blind_falling(void) {
    retrieval_recipe recipe = blind();
    recipe.name = "blind-falling";
    recipe.change = "a learning rate that falls to zero";
    recipe.config.rate_end = 0;
    return recipe;
}

static retrieval_recipe (*const recipes[])(void) = {plain, falling, leak, blind, blind_falling};

size_t retrieval_recipes(void) { return sizeof recipes / sizeof recipes[0]; }

retrieval_recipe retrieval_recipe_at(size_t index) {
    return recipes[index < retrieval_recipes() ? index : 0]();
}

static bool train(const nn_engine *engine, const retrieval_recipe *recipe,
                  const retrieval_recipe_request *request, retrieval_heads *heads,
                  lab_error *error) {
    retrieval_run run = {
        .config = recipe->config,
        .seeds = request->seeds,
        .seed_count = request->seed_count,
        .folder = {.checkpoint_interval = 5000, .log_interval = 1000, .resume = true},
        .quiet = request->quiet,
        .title = recipe->name,
        .executor = request->executor,
        .ranks = request->ranks};
    if (request->steps > 0)
        run.config.steps = request->steps;
    char *folder = request->folder ? lab_path(request->folder, "%s", recipe->name) : NULL;
    if (request->folder && !folder)
        return lab_fail_memory(error);
    run.folder.path = folder;
    bool is_done = retrieval_train(engine, &run, heads, error);
    free(folder);
    return is_done;
}

bool retrieval_recipe_run(const nn_engine *engine, const retrieval_recipe *recipe,
                          const retrieval_recipe_request *request, retrieval_evaluation *result,
                          lab_error *error) {
    whet_policy policies[sizeof recipe->policies / sizeof recipe->policies[0]];
    size_t count = 0;
    for (; recipe->policies[count]; count++)
        if (whet_policy_parse(recipe->policies[count], &policies[count], error->text,
                              sizeof error->text) != WHET_OK) {
            error->kind = LAB_INPUT;
            return false;
        }
    retrieval_heads heads;
    if (!train(engine, recipe, request, &heads, error))
        return false;
    retrieval_eval_request evaluation = {.heads = &heads,
                                         .sizes = request->sizes,
                                         .size_count = request->size_count,
                                         .sets = request->sets,
                                         .seed = request->set_seed,
                                         .policies = policies,
                                         .names = recipe->policies,
                                         .policy_count = count,
                                         .executor = request->executor,
                                         .ranks = request->ranks,
                                         .quiet = request->quiet};
    bool is_done = retrieval_evaluate(engine, &evaluation, result, error);
    retrieval_heads_free(&heads);
    return is_done;
}
