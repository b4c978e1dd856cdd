/* What design.md §3 says an outcome, a receipt and a registration do, for one small world: a user with up to
 * two devices, one batch with up to three dispatches. Written from the document, not from the code: it shares
 * no table and no type with the product, so that the two can disagree.
 *
 * Times are minutes; 0 is when the sequence runs, everything lies before it. */
#ifndef BELFRY_TESTS_MODEL_H
#define BELFRY_TESTS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_DISPATCHES = 3, MODEL_DEVICES = 2, MODEL_TEXT = 40, MODEL_MAX_AGE_MIN = 24 * 60 };

enum model_state {
    MODEL_QUEUED,
    MODEL_SENT,
    MODEL_FAILED,
    MODEL_SUPPRESSED,
    MODEL_DELIVERED,
    MODEL_RECEIPT_ERROR,
    MODEL_EXPIRED,
    MODEL_STATES
};

struct model_dispatch {
    enum model_state state;
    char error[MODEL_TEXT], ticket[MODEL_TEXT]; /* "" : none */
    int device;
    int queued_min;
};

struct model_device {
    bool enabled, heir; /* heir: it belongs to another user now */
    char reason[MODEL_TEXT];
    int registered_min, seen_min, source_min;
    int killed; /* how many times the provider's word switched it off */
};

/* The batch's row of receipt_batches. */
struct model_queue {
    bool there;
    int64_t version, owner; /* owner 0: nobody */
};

/* What a poller remembers of its lease. */
struct model_lease {
    int64_t owner, version; /* owner 0: none */
};

struct model {
    struct model_dispatch dispatches[MODEL_DISPATCHES];
    struct model_device devices[MODEL_DEVICES];
    int dispatch_count, device_count;
    struct model_queue queue;
    int announced; /* final states that went to settled_outbox, failed/Unconfirmed among them */
};

struct model_outcome {
    int dispatch;
    bool orphan; /* the id, the notification or the device is another's */
    enum model_state outcome;
    char text[MODEL_TEXT]; /* ticket of a sent, error of the others */
};

struct model_counts {
    int64_t sent, failed, suppressed, ignored, orphans, disabled;
    int64_t delivered, receipt_error, expired;
};

extern const char *const model_state_names[MODEL_STATES];

/* The outcomes of one committed batch, in order of arrival. */
void model_tell(struct model *model, const struct model_outcome *told, int count,
                struct model_counts *counts);
/* What the provider says of a dispatch's ticket, as it was asked for: error NULL: no receipt; "": ok. */
void model_receipt(struct model *model, int dispatch, const char *ticket, const char *error,
                   struct model_counts *counts);
/* After an answered pass: `sent` with nothing to ask for ends by age. */
void model_expire(struct model *model, struct model_counts *counts);
void model_finish(struct model *model, const struct model_lease *lease);
void model_register(struct model_device *device, bool heir, int at_min);
void model_unregister(struct model_device *device, int at_min);

#endif
