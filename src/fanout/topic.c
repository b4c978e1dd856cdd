/* The receipts topic, before anything is taken: a push whose outcome has no place to go to would be followed
 * by nobody. In: its name. Out: ST_OK once it is there, or once the stop was asked for. Until then batches
 * wait in the table. A crash here loses nothing: nothing was taken. */
#include <poll.h>
#include <stdio.h>

#include "base/log.h"
#include "base/signals.h"
#include "state.h"

enum { ASK_EVERY_MS = 1000, SLICE_MS = 100 };

static void rest(void)
{
    for (int ms = 0; ms < ASK_EVERY_MS && !signals_stopping(); ms += SLICE_MS)
        (void)poll(NULL, 0, SLICE_MS);
}

static void say_missing(const struct fanout *fanout, enum status status, const struct fault *fault)
{
    char reason[READINESS_REASON_MAX];
    if (status == ST_RETRY)
        snprintf(reason, sizeof reason, "no Kafka broker answers");
    else
        snprintf(reason, sizeof reason, "topic %.100s is missing; belfry-dispatcher --create-topics makes it",
                 fanout->setup.receipts_topic);
    readiness_not(fanout->setup.readiness, fanout->readiness_slot, reason);
    log_fault(LOG_ERROR, "FAN-TOPIC-MISSING", reason, status, fault,
              log_text("topic", fanout->setup.receipts_topic));
}

enum status topic_wait(struct fanout *fanout, struct fault *fault)
{
    struct kafka_client_options options = {.properties = fanout->setup.kafka,
                                           .client_name = "belfry-fanout-admin"};
    struct kafka_admin *admin = NULL;
    enum status said = ST_OK, status = kafka_admin_open(&options, &admin, fault);
    while (status == ST_OK && !signals_stopping()) {
        int partitions = 0;
        enum status found = kafka_admin_partitions(admin, fanout->setup.receipts_topic, &partitions, fault);
        readiness_beat(fanout->setup.readiness, fanout->readiness_slot);
        if (found == ST_OK || found == ST_FATAL) {
            status = found;
            break;
        }
        if (found != said) /* once for each cause */
            say_missing(fanout, found, fault);
        said = found;
        rest();
    }
    kafka_admin_close(admin);
    if (status == ST_OK && said != ST_OK && !signals_stopping())
        log_event(LOG_INFO, "FAN-TOPIC-FOUND", "the receipts topic is there",
                  log_text("topic", fanout->setup.receipts_topic));
    return status;
}
