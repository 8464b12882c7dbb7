/*
 * Keys that a mask hides from all rows of a prefill task, as those of other sequences in the same
 * cache: no block begins before the first key that a panel sees or after the last one, and where
 * many of those between are hidden, too, the others are listed and only they are brought into
 * layout.
 */
#include "attention/mask.h"
#include "attention/prefill.h"

/* Marks the keys that a panel sees, the first and the last of which become its limits. */
static void mark_panel(const prefill_work *w, prefill_panel *p, uint64_t *marks, uint64_t *own,
                       size_t words) {
    p->low = SIZE_MAX;
    p->high = 0;
    for (size_t lane = 0; lane < p->row_count; lane++) {
        if (lane > 0 && whet_is_same_mask(&w->slice, &p->row[lane - 1], &p->row[lane]))
            continue;
        whet_mark_visible(&w->slice, &p->row[lane], own);
        for (size_t i = 0; i < words; i++)
            marks[i] |= own[i];
        mark_range range = whet_range_of_marks(own, words);
        widen_keys(range.low, range.high, &p->low, &p->high);
    }
    if (p->low > p->high)
        p->low = p->high;
}

static size_t place_of(const prefill_work *w, size_t count, size_t key) {
    return whet_place_of(w->listed, count, key);
}

/* Counts keys by their places in the list from now on. */
static void use_list(prefill_work *w, size_t words, size_t count) {
    whet_list_marks(w->marks, words, w->listed);
    w->slice.list.keys = w->listed;
    for (size_t i = 0; i < w->panel_count; i++) {
        prefill_panel *p = w->panels + i;
        p->low = place_of(w, count, p->low);
        p->high = place_of(w, count, p->high);
        for (size_t lane = 0; lane < p->row_count; lane++) {
            p->row[lane].low = place_of(w, count, p->row[lane].low);
            p->row[lane].high = place_of(w, count, p->row[lane].high);
        }
    }
}

void whet_prefill_leave_out_keys(prefill_work *w) {
    const whet_attention *a = w->slice.attention;
    size_t words = mark_words(a->keys);
    uint64_t *own = w->marks + words;
    memset(w->marks, 0, words * sizeof *w->marks);
    for (size_t i = 0; i < w->panel_count; i++)
        mark_panel(w, w->panels + i, w->marks, own, words);
    mark_range range = whet_range_of_marks(w->marks, words);
    /* distances are those of keys, and so are the blocks that skip leaves out */
    if (marks_have_holes(&range) && !a->alibi_slopes && !(a->skip > 0))
        use_list(w, words, range.count);
}
