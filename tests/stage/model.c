/* design.md §3 and contracts/events.md (belfry.devices), sentence by sentence. */
#include "model.h"

#include <stdio.h>
#include <string.h>

const char *const model_state_names[MODEL_STATES] = {"queued",    "sent",          "failed", "suppressed",
                                                     "delivered", "receipt_error", "expired"};

static bool is(const char *text, const char *other)
{
    return strcmp(text, other) == 0;
}

static void set(char *text, const char *value)
{
    snprintf(text, MODEL_TEXT, "%s", value);
}

/* "`DeviceNotRegistered`, in a ticket or a receipt, and no other code, soft-disables the token — unless the
 * device registered again, or changed hands, after that dispatch was queued." */
static void token_is_dead(struct model_device *device, int queued_min, struct model_counts *counts)
{
    bool again = device->registered_min > queued_min || device->seen_min > queued_min ||
                 device->source_min > queued_min;
    if (!device->enabled || device->heir || again)
        return;
    device->enabled = false;
    set(device->reason, "DeviceNotRegistered");
    device->killed++;
    counts->disabled++;
}

/* The first two rows of the table; later evidence replaces failed/Unconfirmed, nothing else is replaced. */
static bool outcome_counts(const struct model_dispatch *dispatch, const struct model_outcome *outcome)
{
    if (dispatch->state == MODEL_QUEUED)
        return true;
    if (dispatch->state != MODEL_FAILED || !is(dispatch->error, "Unconfirmed"))
        return false;
    return outcome->outcome != MODEL_FAILED || !is(outcome->text, "Unconfirmed");
}

/* One batch is one transaction: what a dispatch was in the middle of it leaves no trace. */
void model_tell(struct model *model, const struct model_outcome *told, int count, struct model_counts *counts)
{
    bool moved[MODEL_DISPATCHES] = {false}, any_sent = false;
    for (int i = 0; i < count; i++) {
        if (told[i].orphan) {
            counts->orphans++;
            continue;
        }
        struct model_dispatch *dispatch = &model->dispatches[told[i].dispatch];
        if (!outcome_counts(dispatch, &told[i])) {
            counts->ignored++;
            continue;
        }
        counts->ignored += moved[told[i].dispatch]; /* overtaken in its own batch */
        moved[told[i].dispatch] = true;
        bool sent = told[i].outcome == MODEL_SENT;
        dispatch->state = told[i].outcome;
        set(dispatch->error, sent ? "" : told[i].text);
        set(dispatch->ticket, sent ? told[i].text : "");
    }
    for (int i = 0; i < model->dispatch_count; i++) {
        struct model_dispatch *dispatch = &model->dispatches[i];
        if (!moved[i])
            continue;
        counts->sent += dispatch->state == MODEL_SENT;
        counts->failed += dispatch->state == MODEL_FAILED;
        counts->suppressed += dispatch->state == MODEL_SUPPRESSED;
        any_sent = any_sent || dispatch->state == MODEL_SENT;
        model->announced += dispatch->state != MODEL_SENT; /* "each final state … in the same transaction" */
    }
    for (int device = 0; device < model->device_count; device++) {
        for (int i = 0; i < model->dispatch_count; i++) {
            struct model_dispatch *dispatch = &model->dispatches[i];
            if (moved[i] && dispatch->device == device && dispatch->state == MODEL_FAILED &&
                is(dispatch->error, "DeviceNotRegistered"))
                token_is_dead(&model->devices[device], dispatch->queued_min, counts);
        }
    }
    /* "Applying `sent` also puts the batch into `receipt_batches`: … version = version + 1" */
    if (any_sent && model->queue.there)
        model->queue.version++;
    else if (any_sent)
        model->queue = (struct model_queue){.there = true, .version = 1};
}

void model_receipt(struct model *model, int dispatch, const char *ticket, const char *error,
                   struct model_counts *counts)
{
    struct model_dispatch *d = &model->dispatches[dispatch];
    if (d->state != MODEL_SENT || !is(d->ticket, ticket))
        return;
    model->announced += error != NULL || d->queued_min < -MODEL_MAX_AGE_MIN;
    if (error == NULL) {
        if (d->queued_min < -MODEL_MAX_AGE_MIN) {
            d->state = MODEL_EXPIRED;
            counts->expired++;
        }
    } else if (is(error, "")) {
        d->state = MODEL_DELIVERED;
        counts->delivered++;
    } else {
        d->state = MODEL_RECEIPT_ERROR;
        set(d->error, error);
        counts->receipt_error++;
        if (is(error, "DeviceNotRegistered"))
            token_is_dead(&model->devices[d->device], d->queued_min, counts);
    }
}

void model_expire(struct model *model, struct model_counts *counts)
{
    for (int i = 0; i < model->dispatch_count; i++) {
        struct model_dispatch *d = &model->dispatches[i];
        if (d->state != MODEL_SENT || !is(d->ticket, "") || d->queued_min >= -MODEL_MAX_AGE_MIN)
            continue;
        d->state = MODEL_EXPIRED;
        counts->expired++;
        model->announced++;
    }
}

/* "the poller deletes only WHERE version is the one it leased AND no `sent` is left" */
void model_finish(struct model *model, const struct model_lease *lease)
{
    bool sent = false;
    if (!model->queue.there || model->queue.owner == 0 || model->queue.owner != lease->owner)
        return;
    for (int i = 0; i < model->dispatch_count; i++)
        sent = sent || model->dispatches[i].state == MODEL_SENT;
    if (model->queue.version == lease->version && !sent)
        model->queue = (struct model_queue){.there = false};
    else
        model->queue.owner = 0;
}

/* "a record older than the row's last change is ignored, so that a rewind revives no dead token" */
static bool is_old(const struct model_device *device, int at_min)
{
    bool dead = !device->enabled && is(device->reason, "DeviceNotRegistered");
    return at_min < device->source_min || (dead && at_min == device->source_min);
}

/* "A known token is enabled again, last_seen moves, and if another user has it now it moves to that user" */
void model_register(struct model_device *device, bool heir, int at_min)
{
    if (is_old(device, at_min))
        return;
    if (!device->enabled || device->heir != heir)
        device->registered_min = at_min;
    device->enabled = true;
    device->heir = heir;
    set(device->reason, "");
    device->source_min = at_min;
    if (at_min > device->seen_min)
        device->seen_min = at_min;
}

void model_unregister(struct model_device *device, int at_min)
{
    if (is_old(device, at_min))
        return;
    device->source_min = at_min;
    if (device->enabled)
        set(device->reason, "Unregistered");
    device->enabled = false;
}
