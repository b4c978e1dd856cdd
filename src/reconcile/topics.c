/* Whether a topic that is written to is there, before the first record for it. In: its name. Out: a status
 * that says whether to wait. Always holds: asking creates nothing. A crash here loses nothing. */
#include "io/kafka.h"
#include "private.h"

enum status topic_find(const struct reconcile_setup *setup, const char *topic, struct fault *fault)
{
    struct kafka_client_options options = {.properties = setup->kafka,
                                           .client_name = "belfry-reconciler-admin"};
    struct kafka_admin *admin = NULL;
    int partitions = 0;
    enum status status = kafka_admin_open(&options, &admin, fault);
    if (status == ST_OK)
        status = kafka_admin_partitions(admin, topic, &partitions, fault);
    kafka_admin_close(admin);
    return status;
}
