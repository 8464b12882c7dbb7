/* Dealing a run to ranks: see together.h. */
#include "tune/together.h"

bool tune_agree(tune_together *together, bool is_good, lab_error *error) {
    if (together->has_failed)
        return false;
    bool is_agreed = lab_ranks_agree(together->ranks, is_good, error);
    together->has_failed = !is_agreed;
    return is_agreed;
}

/* Progress of this rank's sequences, as if it were that of all. */
typedef struct dealt_progress {
    size_t count, own;
    tune_heard heard;
    void *listener;
} dealt_progress;

static bool heard_own(void *context, size_t done) {
    const dealt_progress *p = context;
    return p->heard(p->listener, done * p->count / p->own);
}

enum { RANKS_MAX = 4096 };

/* The losses of ranks one after the other. */
static void share(const lab_ranks *ranks, const tune_sequence *sequences, size_t count,
                  tune_losses *losses) {
    size_t ends[RANKS_MAX], bytes[RANKS_MAX];
    for (int r = 0; r < ranks->size; r++) {
        ends[r] = tune_judged_count(sequences, lab_rank_first(ranks, count, r + 1));
        bytes[r] = ends[r] * sizeof *losses->loss;
    }
    ranks->share(ranks, losses->loss, bytes);
    ranks->share(ranks, losses->right, ends);
}

static bool judge(void *context, const tune_arm *arm, const tune_sequence *sequences, size_t count,
                  tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    const tune_dealt_judge *dealt = context;
    const tune_judge *own = &dealt->own;
    const lab_ranks *ranks = dealt->together->ranks;
    if (!ranks || dealt->together->is_apart)
        return own->run(own->context, arm, sequences, count, losses, heard, listener, error);
    if (!tune_agree(dealt->together, true, error))
        return false;
    size_t first = lab_rank_first(ranks, count, ranks->rank);
    size_t before = tune_judged_count(sequences, first);
    dealt_progress progress = {count, lab_rank_first(ranks, count, ranks->rank + 1) - first, heard,
                               listener};
    tune_losses mine = {losses->loss + before, losses->right + before};
    bool is_good = progress.own == 0 || own->run(own->context, arm, sequences + first, progress.own,
                                                 &mine, heard ? heard_own : NULL, &progress, error);
    if (!tune_agree(dealt->together, is_good, error))
        return false;
    share(ranks, sequences, count, losses);
    return true;
}

tune_judge tune_deal_judge(tune_dealt_judge *dealt) {
    return (tune_judge){.context = dealt, .has_windows = dealt->own.has_windows, .run = judge};
}
