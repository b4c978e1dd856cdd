/* Which kind each record is: exact shares, spread evenly, no chance about the counts. */
#include <stdlib.h>

#include "support/produce.h"

uint64_t produce_mix(uint64_t seed, uint64_t slot, uint64_t salt)
{
    /* splitmix64's finaliser over the three. */
    uint64_t x = seed * 0x9e3779b97f4a7c15U + slot * 0xbf58476d1ce4e5b9U + salt * 0x94d049bb133111ebU;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

const char *duplicate_name(enum duplicate_kind kind)
{
    static const char *const names[DUP_KINDS] = {"same_batch", "later_batch", "other_run", "other_partition"};
    return names[kind];
}

bool plan_init(struct plan *plan, const struct produce_options *options)
{
    size_t count = (size_t)options->count + 1;
    *plan = (struct plan){.options = options,
                          .owed_duplicates = 0.25, /* out of step, so that no debt is left at the end */
                          .owed_poison = 0.5,
                          .owed_tombstones = 0.75,
                          .originals = calloc(count, sizeof(uint32_t)),
                          .with_key = calloc(count, sizeof(uint32_t))};
    return plan->originals != NULL && plan->with_key != NULL;
}

void plan_done(struct plan *plan)
{
    free(plan->originals);
    free(plan->with_key);
}

/* Of the slots (in rising order) one that is at least `ago` records old. */
static bool pick(const struct plan *plan, const uint32_t *slots, size_t count, uint32_t ago, uint32_t *of)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slots[middle] + ago <= plan->next)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *of = slots[produce_mix(plan->options->seed, plan->next, 11) % low];
    return true;
}

/* False when there is no original of the right kind yet: the debt stays. */
static bool try_duplicate(struct plan *plan, struct planned *planned)
{
    enum duplicate_kind kind = (enum duplicate_kind)(plan->duplicate_count % DUP_KINDS);
    uint32_t later = LATER_RECORDS;
    if ((uint32_t)plan->options->count < 4 * later)
        later = (uint32_t)plan->options->count / 4;
    if (kind == DUP_OTHER_PARTITION && plan->options->partitions < 2)
        kind = DUP_LATER_BATCH;
    bool found = false;
    switch (kind) {
    case DUP_SAME_BATCH:
        found = plan->after_original;
        planned->of = plan->next - 1;
        break;
    case DUP_LATER_BATCH:
        found = pick(plan, plan->originals, plan->original_count, later, &planned->of);
        break;
    case DUP_OTHER_RUN:
        found = pick(plan, plan->with_key, plan->with_key_count, 1, &planned->of);
        break;
    case DUP_OTHER_PARTITION:
        found = pick(plan, plan->originals, plan->original_count, 1, &planned->of);
        break;
    case DUP_KINDS:
        break;
    }
    if (found) {
        planned->kind = KIND_DUPLICATE;
        planned->duplicate = kind;
        plan->duplicate_count++;
        plan->owed_duplicates -= 1;
    } else if (kind == DUP_LATER_BATCH || kind == DUP_OTHER_RUN) {
        plan->duplicate_count++; /* its turn goes by: the next kind may be possible already */
    }
    return found;
}

static void place(const struct plan *plan, struct planned *planned)
{
    const struct produce_options *options = plan->options;
    struct contents contents;
    contents_of(options, planned->of, &contents);
    int32_t count = (int32_t)options->partitions;
    planned->partition = contents_partition(options, &contents);
    if (planned->kind == KIND_DUPLICATE && planned->duplicate == DUP_OTHER_PARTITION)
        planned->partition = (planned->partition + 1) % count;
    /* Half a minute of events, the last one now; or all at one moment. */
    int64_t spread_ms = 30000 * (int64_t)planned->slot / (options->count == 0 ? 1 : options->count);
    bool same =
        (double)(produce_mix(options->seed, planned->slot, 12) % 10000) < options->same_timestamp * 100;
    planned->timestamp_ms = options->base_ms - 30000 + (same ? 0 : spread_ms);
}

void plan_next(struct plan *plan, struct planned *planned)
{
    const struct produce_options *options = plan->options;
    *planned = (struct planned){.slot = plan->next, .of = plan->next, .kind = KIND_EVENT};
    plan->owed_duplicates += options->duplicates / 100;
    plan->owed_poison += options->poison / 100;
    plan->owed_tombstones += (double)options->tombstones / (double)options->count;
    /* A hair below 1: a hundred times 0.01 is not quite 1. */
    static const double due = 1 - 1e-9;
    if (plan->owed_tombstones >= due) {
        planned->kind = KIND_TOMBSTONE;
        plan->owed_tombstones -= 1;
    } else if (plan->owed_poison >= due) {
        planned->kind = KIND_POISON;
        planned->poison = plan->poison_count++ % poison_variants();
        plan->owed_poison -= 1;
    } else if (plan->owed_duplicates < due || !try_duplicate(plan, planned)) {
        struct contents contents;
        planned->of = plan->next;
        contents_of(options, plan->next, &contents);
        plan->originals[plan->original_count++] = plan->next;
        if (contents.has_key)
            plan->with_key[plan->with_key_count++] = plan->next;
    }
    plan->after_original = planned->kind == KIND_EVENT;
    place(plan, planned);
    plan->next++;
}
