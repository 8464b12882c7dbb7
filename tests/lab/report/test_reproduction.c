/*
 * Which parts a run of `whet reproduce` makes, at which scale, and what it takes
 * over from the run before it in the folder. Nothing is trained.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "base/manifest.h"
#include "report/reproduction.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/whet-reproduction.XXXXXX", manifest_path[64];

static void need_folder(void) {
    if (!*manifest_path) {
        REQUIRE(mkdtemp(folder) != NULL);
        snprintf(manifest_path, sizeof manifest_path, "%s/manifest.json", folder);
    }
}

__attribute__((destructor)) static void remove_folder(void) {
    unlink(manifest_path);
    rmdir(folder);
}

static bool wants(const reproduction *run, const char *name) {
    const report_part *part = report_part_named(name);
    REQUIRE(part != NULL);
    return reproduction_wants(run, part);
}

TEST(names_that_are_no_parts_are_found) {
    char wrong[REPRODUCTION_NAME_SIZE];
    CHECK(reproduction_check_list("table1,figure5", wrong));
    CHECK(reproduction_check_list("clrs", wrong));
    CHECK(!reproduction_check_list("", wrong));
    CHECK_STR(wrong, "");
    CHECK(!reproduction_check_list("table1,figure22,ties", wrong));
    CHECK_STR(wrong, "figure22");
    CHECK(!reproduction_check_list("5", wrong)); /* a number is for `whet figure` */
    CHECK_STR(wrong, "5");
    CHECK(!reproduction_check_list("a-name-that-is-far-longer-than-that-of-any-part", wrong));
    CHECK(strlen(wrong) == sizeof wrong - 1);
}

TEST(a_run_makes_what_is_named_or_what_its_scale_has) {
    reproduction run = {.folder = "report"};
    CHECK(wants(&run, "table1") && !wants(&run, "beyond") && !wants(&run, "figure8"));
    run.is_full = true;
    CHECK(wants(&run, "table1") && wants(&run, "beyond") && wants(&run, "figure8"));
    run.only = "ties,clrs";
    CHECK(wants(&run, "ties") && wants(&run, "clrs") && !wants(&run, "table1"));
    CHECK(wants(&run, "figure8")); /* it is made with its group */
}

TEST(a_head_is_trained_to_show_how_unless_all_heads_are_trained) {
    reproduction run = {.folder = "report"};
    experiment own = reproduction_start(&run);
    CHECK(wants(&run, "training") && !own.options.trains_heads);
    CHECK_INT(experiment_head_count(&own.options, experiment_paper), 10);
    run.scale.steps = 40;
    experiment trained = reproduction_start(&run);
    CHECK(!wants(&run, "training") && trained.options.trains_heads);
    CHECK_INT(experiment_head_count(&trained.options, experiment_paper), 1);
    run.only = "training";
    CHECK(wants(&run, "training"));
    experiment_end(&own);
    experiment_end(&trained);
}

TEST(what_takes_long_is_left_out_unless_parts_are_named) {
    reproduction run = {.folder = "report"};
    experiment made = reproduction_start(&run);
    CHECK(reproduction_leaves_out(&run, &made, report_part_named("beyond")));
    CHECK(!reproduction_leaves_out(&run, &made, report_part_named("table1")));
    CHECK(!reproduction_leaves_out(&run, &made,
                                   report_part_named("figure8"))); /* clrs stands for it */
    run.only = "table1";
    CHECK(!reproduction_leaves_out(&run, &made, report_part_named("beyond")));
    experiment_end(&made);
}

TEST(numbers_that_are_not_given_are_those_of_the_scale) {
    reproduction run = {.folder = "report", .scale = {.sets = 7}};
    experiment quick = reproduction_start(&run);
    CHECK_INT(quick.options.seeds, 1);
    CHECK_INT(quick.options.steps, REPRODUCTION_QUICK_STEPS);
    CHECK_INT(quick.options.sets, 7);
    run.is_full = true;
    experiment full = reproduction_start(&run);
    CHECK_INT(full.options.seeds, REPRODUCTION_FULL_SEEDS);
    CHECK_INT(full.options.steps, REPRODUCTION_FULL_STEPS);
    experiment_end(&quick);
    experiment_end(&full);
}

static void write_manifest(const char *command, json_t *options) {
    need_folder();
    lab_error error = {0};
    lab_manifest manifest = lab_manifest_begin(command, options, NULL);
    REQUIRE(lab_manifest_write(&manifest, folder, true, &error));
    lab_manifest_end(&manifest);
}

TEST(the_scale_of_the_run_before_is_recalled) {
    need_folder();
    lab_error error = {0};
    reproduction run = {.folder = folder, .scale = {.steps = 5}};
    unlink(manifest_path);
    CHECK(reproduction_recall_scale(&run, &error) && run.scale.seeds == 0);
    write_manifest("reproduce", json_pack("{s:i, s:i, s:i, s:i}", "seeds", 3, "steps", 40, "sets",
                                          6, "lm_steps", 0));
    CHECK(reproduction_recall_scale(&run, &error));
    CHECK_INT(run.scale.seeds, 3);
    CHECK_INT(run.scale.steps, 5); /* which was given */
    CHECK_INT(run.scale.sets, 6);
    CHECK_INT(run.scale.lm_steps, 0);
}

TEST(a_run_with_the_program_s_heads_is_followed_by_another) {
    lab_error error = {0};
    reproduction run = {.folder = folder};
    write_manifest("reproduce", json_pack("{s:b, s:i, s:i, s:i, s:i}", "builtin_heads", 1, "seeds",
                                          1, "steps", 20000, "fresh_steps", 300, "sets", 6));
    CHECK(reproduction_recall_scale(&run, &error));
    CHECK_INT(run.scale.seeds, 0);
    CHECK_INT(run.scale.steps, 0);
    CHECK_INT(run.scale.fresh_steps, 300);
    CHECK_INT(run.scale.sets, 6);
}

TEST(manifests_of_others_are_refused) {
    lab_error error = {0};
    reproduction run = {.folder = folder};
    write_manifest("retrieval train",
                   json_pack("{s:i, s:i, s:i}", "seeds", 3, "steps", 4, "sets", 5));
    CHECK(!reproduction_recall_scale(&run, &error));
    CHECK(error.kind == LAB_INPUT && strstr(error.text, ": not a manifest of 'whet reproduce'"));
    write_manifest("reproduce", json_pack("{s:i, s:i, s:i}", "seeds", -3, "steps", 4, "sets", 5));
    error = (lab_error){0};
    CHECK(!reproduction_recall_scale(&run, &error) && error.kind == LAB_INPUT);
}

TEST(parts_that_are_not_made_again_keep_their_scale) {
    write_manifest("reproduce", json_pack("{s:i, s:i, s:i, s:i}", "seeds", 3, "steps", 40, "sets",
                                          6, "lm_steps", 50));
    reproduction run = {.folder = folder, .only = "table1"};
    reproduction_keep_scale(&run);
    CHECK_INT(run.scale.seeds, 0);
    CHECK_INT(run.scale.lm_steps, 50);
    run = (reproduction){.folder = folder, .only = "clrs"};
    reproduction_keep_scale(&run);
    CHECK_INT(run.scale.seeds, 3);
    CHECK_INT(run.scale.lm_steps, 0);
}
