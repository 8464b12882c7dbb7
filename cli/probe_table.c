/* The tables of `whet probe`; see probe.h. */
#include "probe.h"

#include "commands.h"
#include "messages.h"
#include "text.h"

#include "base/statistics.h"
#include "base/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKED = 6, SPARK_SIZE = 4 * PROBE_SIZES_MAX };

/* A share of 1 for each size, as a row of little bars. */
static const char *sparkline(const double *shares, size_t count, terminal_style style,
                             char text[SPARK_SIZE]) {
    static const char *const bars[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                       "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                       "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char plain[] = "_.:-=+*#";
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t level = isnan(shares[i]) ? 0 : (size_t)(fmin(fmax(shares[i], 0), 0.999) * 8);
        if (isnan(shares[i]))
            text[length++] = ' ';
        else if (style.unicode)
            length += (size_t)snprintf(text + length, SPARK_SIZE - length, "%s", bars[level]);
        else
            text[length++] = plain[level];
    }
    text[length] = '\0';
    return text;
}

/* The mean over a layer's heads, or a single head's. */
static double entropy_of(const probe_result *r, size_t policy, size_t size, size_t layer,
                         size_t head, probe_measure measure) {
    double sum = 0, count = 0;
    if (head < r->heads)
        return probe_mean(r, policy, size, layer, head, measure);
    for (size_t h = 0; h < r->heads; h++) {
        double value = probe_mean(r, policy, size, layer, h, measure);
        sum += isnan(value) ? 0 : value;
        count += !isnan(value);
    }
    return sum / count;
}

/* One line: entropies, the bars of their shares, and how fast they grow. */
static void add_line(lab_table *table, const probe_view *view, size_t policy, size_t layer,
                     size_t head, probe_measure measure) {
    const probe_result *r = view->result;
    double shares[PROBE_SIZES_MAX] = {0}, entropy = 0, first = 0;
    char spark[SPARK_SIZE];
    if (head < r->heads)
        lab_table_add(table, "%zu.%zu", layer, head);
    else
        lab_table_add(table, "%zu", layer);
    for (size_t s = 0; s < r->sizes; s++) {
        entropy = entropy_of(r, policy, s, layer, head, measure);
        first = s == 0 ? entropy : first;
        shares[s] = entropy / probe_ceiling(r, s);
        if (isnan(entropy))
            lab_table_add(table, "-");
        else
            lab_table_add(table, "%.2f", entropy);
    }
    lab_table_add(table, "%s", sparkline(shares, r->sizes, view->style, spark));
    double growth = probe_ceiling(r, r->sizes - 1) - probe_ceiling(r, 0);
    if (growth > 0 && !isnan(entropy - first))
        lab_table_add(table, "%+.2f", (entropy - first) / growth);
    else
        lab_table_add(table, "-");
}

static bool print_entropies(const probe_view *view, size_t policy, probe_measure measure) {
    const probe_result *r = view->result;
    char number[NUMBER_SIZE];
    bool is_by_head = view->shows_heads || view->layer != UINT64_MAX;
    lab_table table = lab_table_start(r->sizes + 3);
    lab_table_add(&table, is_by_head ? "head" : "layer");
    for (size_t s = 0; s < r->sizes; s++)
        lab_table_add(&table, "%s", grouped(r->size[s], number));
    lab_table_add(&table, "H/ln n");
    lab_table_add(&table, "slope");
    for (size_t layer = 0; layer < r->layers; layer++) {
        if (view->layer != UINT64_MAX && layer != view->layer)
            continue;
        if (!is_by_head)
            add_line(&table, view, policy, layer, r->heads, measure);
        for (size_t head = 0; is_by_head && head < r->heads; head++)
            if (!isnan(probe_mean(r, policy, 0, layer, head, PROBE_ENTROPY)))
                add_line(&table, view, policy, layer, head, measure);
    }
    lab_table_add(&table, "ln n");
    for (size_t s = 0; s < r->sizes; s++)
        lab_table_add(&table, "%.2f", probe_ceiling(r, s));
    lab_table_add(&table, " ");
    lab_table_add(&table, " ");
    return lab_table_finish(&table, stdout);
}

static bool print_answers(const probe_view *view) {
    const probe_result *r = view->result;
    char number[NUMBER_SIZE];
    bool is_judged = !isnan(r->perplexity[0]), is_asked = r->score[0][0].asked > 0;
    if (!is_judged && !is_asked)
        return true;
    putchar('\n');
    tell("%s%s%s", is_asked ? "answers that name the maximum, %" : "",
         is_asked && is_judged ? "; " : "", is_judged ? "perplexity of the text given" : "");
    lab_table table = lab_table_start(1 + (is_asked ? r->sizes : 0) + is_judged);
    lab_table_add(&table, "policy");
    for (size_t s = 0; is_asked && s < r->sizes; s++)
        lab_table_add(&table, "%s", grouped(r->size[s], number));
    if (is_judged)
        lab_table_add(&table, "perplexity");
    for (size_t p = 0; p < r->policies; p++) {
        lab_table_add(&table, "%s", view->request->policies[p]);
        for (size_t s = 0; is_asked && s < r->sizes; s++)
            lab_table_add(&table, "%.0f",
                          100 * (double)r->score[p][s].right / (double)r->score[p][s].asked);
        if (is_judged)
            lab_table_add(&table, "%.4g", r->perplexity[p]);
    }
    return lab_table_finish(&table, stdout);
}

/* The first heads of a kind, in one line each, and how many more there are. */
static bool print_kind(const head_trend *trends, size_t count, head_kind kind, size_t of_kind) {
    static const char *const titles[] = {"head", "shortest", "longest", "of ln n", "to", "slope"};
    size_t found = 0;
    lab_table table = lab_table_start(6);
    for (size_t c = 0; c < 6; c++)
        lab_table_add(&table, "%s", titles[c]);
    for (size_t i = 0; i < count && found < RANKED; i++) {
        if (trends[i].kind != kind)
            continue;
        found++;
        lab_table_add(&table, "%zu.%zu", trends[i].layer, trends[i].head);
        lab_table_add(&table, "%.2f", trends[i].short_entropy);
        lab_table_add(&table, "%.2f", trends[i].long_entropy);
        lab_table_add(&table, "%.0f %%", 100 * trends[i].short_share);
        lab_table_add(&table, "%.0f %%", 100 * trends[i].long_share);
        if (isnan(trends[i].slope))
            lab_table_add(&table, "-");
        else
            lab_table_add(&table, "%+.2f", trends[i].slope);
    }
    if (!lab_table_finish(&table, stdout))
        return false;
    if (of_kind > found)
        tell("(and %zu more)", of_kind - found);
    return true;
}

static int print_trends(const probe_view *view) {
    static const char *const meanings[HEAD_KINDS] = {
        "disperse: sharp on the shortest input, and their entropy grows with ln n",
        "stay sharp",
        "become sharp on longer input, relative to ln n",
        "are diffuse from the beginning",
    };
    size_t count, of_kind[HEAD_KINDS] = {0};
    head_trend *trends = probe_trends(view->result, probe_plainest(view->request), &count);
    if (!trends)
        return complain_of_memory();
    for (size_t i = 0; i < count; i++)
        of_kind[trends[i].kind]++;
    bool is_printed = true, is_cut = false;
    for (int kind = 0; is_printed && kind < HEAD_KINDS; kind++) {
        if (of_kind[kind] == 0)
            continue;
        putchar('\n');
        tell("%zu of %zu heads %s", of_kind[kind], count, meanings[kind]);
        is_printed = print_kind(trends, count, (head_kind)kind, of_kind[kind]);
        is_cut |= of_kind[kind] > RANKED;
    }
    if (is_printed && is_cut) {
        putchar('\n');
        tell("--json has every head with its kind and slope, --csv every head's entropies");
    }
    free(trends);
    return is_printed ? STATUS_OK : complain_of_memory();
}

/* Whether a policy leaves some head without one, where there was one before. */
static bool has_no_entropy(const probe_result *r, size_t policy) {
    for (size_t layer = 0; layer < r->layers; layer++)
        for (size_t head = 0; head < r->heads; head++)
            if (!isnan(probe_mean(r, policy, 0, layer, head, PROBE_ENTROPY)) &&
                isnan(probe_mean(r, policy, 0, layer, head, PROBE_ENTROPY_AFTER)))
                return true;
    return false;
}

static void print_title(const probe_view *view) {
    const probe_result *r = view->result;
    char first[NUMBER_SIZE], last[NUMBER_SIZE];
    const char *what = view->request->text ? "tokens" : "numbers";
    tell("%s with llama.cpp %s: %zu layers of %zu heads, %s of %s%s%s %s", view->model,
         r->version[0] ? r->version : "(unknown version)", r->layers, r->heads,
         view->request->text ? "beginnings" : "sequences", grouped(r->size[0], first),
         r->sizes > 1 ? " to " : "", r->sizes > 1 ? grouped(r->size[r->sizes - 1], last) : "",
         what);
    if (r->sizes < view->request->size_count && !r->has_whole_text)
        tell("(%s %s and more do not fit into the model's context)",
             grouped(view->request->sizes[r->sizes], first), what);
}

/* The heads with the highest retrieval scores. */
static bool print_retrieval(const probe_view *view) {
    const probe_result *r = view->result;
    const size_t base = probe_plainest(view->request);
    if (!r->retrieval)
        return true;
    size_t copied = r->needle_copied[base];
    putchar('\n');
    if (copied > 0)
        tell("retrieval: how often the largest weight of a head lies on the token in the needle "
             "that "
             "the model copies next (%zu of %zu tokens)",
             copied, r->needle_tokens);
    else
        tell("retrieval: how often the largest weight of a head lies on the token in the needle "
             "that "
             "comes next (%zu tokens, of which the model would copy none)",
             r->needle_tokens);
    lab_table table = lab_table_start(2);
    lab_table_add(&table, "head");
    lab_table_add(&table, "score");
    double last = INFINITY;
    for (size_t rank = 0; rank < RANKED;) {
        double next = -1;
        for (size_t i = 0; i < r->layers * r->heads; i++) {
            double score = probe_retrieval(r, base, i / r->heads, i % r->heads);
            next = score < last && score > next ? score : next;
        }
        if (next < 0)
            break;
        for (size_t i = 0; i < r->layers * r->heads && rank < RANKED; i++)
            if (probe_retrieval(r, base, i / r->heads, i % r->heads) == next) {
                lab_table_add(&table, "%zu.%zu", i / r->heads, i % r->heads);
                lab_table_add(&table, "%.2f", next);
                rank++;
            }
        last = next;
    }
    return lab_table_finish(&table, stdout);
}

/* A head and how the beta that it needs grows. */
typedef struct head_need {
    size_t layer, head;
    double exponent;
} head_need;

static int compare_needs(const void *a, const void *b) {
    const head_need *left = a, *right = b;
    return (left->exponent < right->exponent) - (left->exponent > right->exponent);
}

static void print_need(lab_table *table, const probe_result *r, const head_need *need) {
    const size_t last = r->sizes - 1, within_1 = 1;
    lab_table_add(table, "%zu.%zu", need->layer, need->head);
    lab_table_add(table, "%.3g", probe_within(r, 0, need->layer, need->head, within_1));
    lab_table_add(table, "%.4g", probe_within(r, last, need->layer, need->head, within_1));
    lab_table_add(table, "%.2f", probe_beta_called_for(r, last, need->layer, need->head));
    lab_table_add(table, "%+.2f", need->exponent);
}

static bool print_needs(const probe_result *r, head_need *needs) {
    static const char *const titles[] = {"head", "shortest", "longest", "beta", "exponent"};
    size_t count = 0;
    for (size_t i = 0; i < r->layers * r->heads; i++) {
        head_need need = {i / r->heads, i % r->heads,
                          probe_exponent(r, i / r->heads, i % r->heads)};
        if (!isnan(need.exponent))
            needs[count++] = need;
    }
    qsort(needs, count, sizeof *needs, compare_needs);
    putchar('\n');
    if (count == 0) {
        tell("beta that n calls for: no head has one, with fewer than two sizes or weights that no "
             "beta restores");
        return true;
    }
    tell(
        "beta that n calls for: with it the largest weight stays what it is on the shortest input. "
        "It grows like a power of ln n; its exponent is %+.2f for half of %zu heads, and %+.2f or "
        "more for a tenth. Logits within 1 of the largest, and beta on the longest input:",
        needs[count / 2].exponent, count, needs[count / 10].exponent);
    lab_table table = lab_table_start(5);
    for (size_t c = 0; c < 5; c++)
        lab_table_add(&table, "%s", titles[c]);
    for (size_t i = 0; i < count && i < RANKED; i++)
        print_need(&table, r, &needs[i]);
    if (!lab_table_finish(&table, stdout))
        return false;
    if (count > RANKED)
        tell("(and %zu more)", count - RANKED);
    return true;
}

static bool print_gaps(const probe_result *r) {
    if (!r->gaps)
        return true;
    head_need *needs = malloc((r->layers * r->heads + 1) * sizeof *needs);
    bool is_printed = needs && print_needs(r, needs);
    free(needs);
    return is_printed;
}

int print_probe(const probe_view *view) {
    print_title(view);
    const size_t base = probe_plainest(view->request);
    const char *policy = view->request->policies[base];
    bool is_plain = strcmp(policy, "softmax") == 0;
    printf("\nentropy of the last position, nats%s%s%s\n",
           view->shows_heads || view->layer != UINT64_MAX ? "" : ", mean of a layer's heads",
           is_plain ? "" : ", before policy ", is_plain ? "" : policy);
    if (!print_entropies(view, base, PROBE_ENTROPY))
        return complain_of_memory();
    for (size_t p = 0; p < view->result->policies; p++) {
        if (strcmp(view->request->policies[p], "softmax") == 0)
            continue;
        printf("\nthe same after policy %s has acted\n", view->request->policies[p]);
        if (!print_entropies(view, p, PROBE_ENTROPY_AFTER))
            return complain_of_memory();
        if (has_no_entropy(view->result, p))
            puts("(-: coefficients that need not sum to one, which have no entropy)");
    }
    if (!print_answers(view) || !print_retrieval(view) || !print_gaps(view->result))
        return complain_of_memory();
    return print_trends(view);
}
