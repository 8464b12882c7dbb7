/* The report's table of contents; see parts.h. */
#include "report/parts.h"
#include "report/beyond.h"
#include "report/clrs.h"
#include "report/data.h"
#include "report/figures.h"
#include "report/head_figures.h"
#include "report/table1.h"
#include <stdio.h>
#include <string.h>

static bool draw_figure1(experiment *e, const char *path, lab_error *error) {
    (void)e;
    return figure_dispersion(path, 1, error);
}

static bool draw_figure2(experiment *e, const char *path, lab_error *error) {
    const json_t *panels = experiment_panels(e, "softmax", error);
    return panels && figure_heads(path, panels, "Softmax: coefficients of a trained head", error);
}

static bool draw_figure5(experiment *e, const char *path, lab_error *error) {
    (void)e;
    return figure_temperature(path, error);
}

static bool draw_figure6(experiment *e, const char *path, lab_error *error) {
    const json_t *fit = experiment_fit(e, error);
    return fit && figure_fit(path, fit, error);
}

static bool draw_figure7(experiment *e, const char *path, lab_error *error) {
    const json_t *panels = experiment_panels(e, "adaptive", error);
    return panels &&
           figure_heads(path, panels, "Adaptive temperature: the same head, the same sets", error);
}

static bool draw_accuracy(experiment *e, const char *path, lab_error *error) {
    const json_t *evaluation = experiment_evaluation(e, experiment_paper, error);
    return evaluation &&
           figure_accuracy(path, evaluation, "Every policy, products in bfloat16", error);
}

static bool draw_accuracy_f32(experiment *e, const char *path, lab_error *error) {
    const json_t *evaluation = experiment_evaluation(e, RETRIEVAL_F32, error);
    return evaluation && figure_accuracy(path, evaluation, "Every policy, f32", error);
}

static bool draw_entropy(experiment *e, const char *path, lab_error *error) {
    const json_t *evaluation = experiment_evaluation(e, RETRIEVAL_F32, error);
    return evaluation && figure_entropy(path, evaluation, error);
}

static bool draw_policies(experiment *e, const char *path, lab_error *error) {
    (void)e;
    return figure_policies(path, error);
}

static bool draw_ties(experiment *e, const char *path, lab_error *error) {
    const json_t *table = experiment_table(e, error);
    return table && figure_ties(path, table, error);
}

static bool draw_sharpness(experiment *e, const char *path, lab_error *error) {
    const json_t *evaluation = experiment_sharpness(e, error);
    return evaluation && figure_sharpness(path, evaluation, error);
}

static bool draw_training(experiment *e, const char *path, lab_error *error) {
    const json_t *fresh = experiment_fresh(e, error);
    return fresh && figure_training(path, fresh, error);
}

static const json_t *kept_table1(const experiment *e) { return e->table; }

static const json_t *kept_beyond(const experiment *e) { return e->beyond; }

static bool draw_figure8(experiment *e, const char *path, lab_error *error) {
    const json_t *result = experiment_clrs(e, error);
    return result && figure_clrs(path, result, 0, error);
}

static bool draw_figure9(experiment *e, const char *path, lab_error *error) {
    const json_t *result = experiment_clrs(e, error);
    return result && figure_clrs(path, result, 1, error);
}

static bool draw_clrs_policies(experiment *e, const char *path, lab_error *error) {
    const json_t *result = experiment_clrs(e, error);
    return result && figure_clrs_policies(path, result, error);
}

static bool draw_clrs_entropy(experiment *e, const char *path, lab_error *error) {
    const json_t *result = experiment_clrs(e, error);
    return result && figure_clrs_entropy(path, result, error);
}

static const json_t *kept_clrs(const experiment *e) { return e->clrs; }

static const report_table table1 = {experiment_table, kept_table1, table1_print, table1_html};
static const report_table beyond = {experiment_beyond, kept_beyond, beyond_print, beyond_html};
static const report_table clrs = {experiment_clrs, kept_clrs, clrs_print, clrs_html};

static const report_part parts[] = {
    {"table1", "Table 1: max retrieval",
     "A head is trained to find the item of highest priority among 5 to 16 and then gets sets of "
     "up to 16,384. Accuracy in per cent, ours above the published row.",
     .table = &table1, .needs = JOB(TABLE), .csv = data_table1},
    {"training", "A head trained in this run",
     "The heads of Table 1 come with the program; this one was trained here from random weights, "
     "with another seed, to show the process. Cross-entropy and accuracy on the sets of each step, "
     "which are drawn anew.",
     .draw = draw_training, .needs = JOB(FRESH), .csv = data_training, .is_live = true},
    {"figure1", "Figure 1: every head disperses",
     "A Transformer with random weights reads n tokens of a vocabulary of 32, one of them only "
     "once. However sharp a head is among 16 tokens, its largest coefficient falls like 1/n "
     "(Theorem 2.2), because logits over a finite vocabulary cannot move further apart.",
     .draw = draw_figure1, .csv = data_figure1},
    {"figure2", "Figure 2: the head washes out",
     "Each row is a set, each column one of its 16 items of highest priority, the right one at the "
     "right edge. What is a clear choice among 16 items is a blur among 2,048.",
     .draw = draw_figure2, .needs = JOB(PANELS), .csv = data_figure2},
    {"figure7", "Figure 7: the same head under adaptive temperature",
     "The same weights and the same sets, with each row's entropy measured and its temperature "
     "lowered accordingly. The blur narrows but does not vanish.",
     .draw = draw_figure7, .needs = JOB(PANELS), .csv = data_figure7},
    {"ties", "What bfloat16 does",
     "If priorities are rounded to bfloat16 before the head sees them, the largest ones tie, and "
     "picking any of the tied items already gives nearly the published adaptive row. That the "
     "published heads saw rounded inputs is our inference from these numbers; the paper does not "
     "say so.",
     .draw = draw_ties, .needs = JOB(TABLE), .csv = data_ties},
    {"figure5", "Figure 5: entropy against temperature",
     "Ten powers of &lambda; as logits, at temperature &theta;: a lower temperature never raises "
     "the entropy (Proposition 3.2). At &lambda; = 1 all logits are equal and temperature does "
     "nothing; near 0 nine of the ten are.",
     .draw = draw_figure5, .csv = data_figure5},
    {"figure6", "Figure 6: the best temperature for a set",
     "For many sets, the inverse temperature at which the head's answer has the lowest "
     "cross-entropy, against the entropy of its coefficients. A polynomial through such points is "
     "the paper's policy. Ours, of the same degree, depends on the sizes and the cap used; it "
     "does not recover the published coefficients.",
     .draw = draw_figure6, .needs = JOB(FIT), .csv = data_figure6},
    {"policies", "Temperatures that the policies choose",
     "Inverse temperature against entropy for policies that look at it, and against n for those "
     "that count. The paper's polynomial acts only between entropies of 0.849 and 5.945.",
     .draw = draw_policies, .csv = data_policies},
    {"accuracy", "Every policy on the same sets, in bfloat16",
     "Shaded: 95 % intervals of the paper's two. With rounded numbers no policy beats the "
     "paper's clearly: most of the loss is in the inputs already.",
     .draw = draw_accuracy, .needs = JOB(POLICIES), .csv = data_accuracy},
    {"accuracy-f32", "Every policy on the same sets, in f32",
     "The same with nothing rounded. Here dispersion is what limits softmax, and the sharper "
     "policies go on where the paper's polynomial ends.",
     .draw = draw_accuracy_f32, .needs = JOB(POLICIES_F32), .csv = data_accuracy_f32},
    {"entropy", "Entropy against n",
     "Under softmax the entropy climbs towards its ceiling ln n as items are added. Policies that "
     "hold it down keep the head's choice readable. Maps whose coefficients need not sum to one "
     "have no entropy and are left out.",
     .draw = draw_entropy, .needs = JOB(POLICIES_F32), .csv = data_accuracy_f32},
    {"sharpness", "Sharper is not always better",
     "Cross-entropy of the answers when all rows have the same inverse temperature, inputs in f32. "
     "Too sharp is punished: where the head is wrong, it is then wrong with certainty.",
     .draw = draw_sharpness, .needs = JOB(SHARPNESS), .csv = data_sharpness},
    {"beyond", "Beyond the paper: heads that stay sharp",
     "The same model, trained on 5 to 16 items with f32 inputs, one change at a time: keys that "
     "must not or cannot tell classes apart, and a learning rate that falls to zero. Each row adds "
     "one change to the row before it on its path.",
     .table = &beyond, .needs = JOB(BEYOND), .csv = data_beyond, .is_extra = true},
    {"clrs", "CLRS-Text: a Transformer learns algorithms",
     "The paper's second experiment, at a size that a laptop can train: a decoder-only Transformer "
     "learns textbook algorithms on short inputs, digit by digit, and is asked about longer ones: "
     "without adaptive temperature, with it at inference only, and with it in training too. The "
     "further policies replace softmax in the model that was trained with it.",
     .table = &clrs, .needs = JOB(CLRS), .csv = data_clrs, .is_extra = true},
    {"figure8", "Figure 8: accuracy against length",
     "Exact answers by length, shaded 95 % intervals; the grey band marks the lengths of training. "
     "The published curve is that of Gemma 2B, a model of ten thousand times the size that was "
     "tuned on other lengths: for orientation only.",
     .draw = draw_figure8, .needs = JOB(CLRS), .csv = data_clrs, .is_extra = true, .group = "clrs"},
    {"figure9", "Figure 9: the other algorithms", "The same for the rest of the algorithms.",
     .draw = draw_figure9, .needs = JOB(CLRS), .csv = data_clrs, .is_extra = true, .group = "clrs"},
    {"clrs-policies", "Other policies on the model that was trained with softmax",
     "The same weights with another policy in every head at inference, which they were not trained "
     "with.",
     .draw = draw_clrs_policies, .needs = JOB(CLRS), .csv = data_clrs, .is_extra = true,
     .group = "clrs"},
    {"clrs-entropy", "How sharp the heads stay",
     "Entropy of every head's coefficients while the model answers, after its policy, against the "
     "length of the input.",
     .draw = draw_clrs_entropy, .needs = JOB(CLRS), .csv = data_clrs, .is_extra = true,
     .group = "clrs"},
};

const report_part *report_part_at(size_t i) {
    return i < sizeof parts / sizeof *parts ? &parts[i] : NULL;
}

const report_part *report_part_named(const char *name) {
    char figure[32];
    snprintf(figure, sizeof figure, "figure%.20s", name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, name) == 0 || strcmp(parts[i].name, figure) == 0)
            return &parts[i];
    return NULL;
}

const char *report_elsewhere(const char *name) {
    const char *number = strncmp(name, "figure", 6) == 0 ? name + 6 : name;
    if (strcmp(number, "3") == 0)
        return "figure 3 looks into a language model: 'whet figure 3 -m MODEL.gguf', the number "
               "first";
    if (strcmp(number, "4") == 0)
        return "figure 4 is a listing; 'whet policies' and whet_policy_adaptive() are what it says";
    return NULL;
}
