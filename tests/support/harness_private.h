/* Between the harness' own files. */
#ifndef BELFRY_TESTS_HARNESS_PRIVATE_H
#define BELFRY_TESTS_HARNESS_PRIVATE_H

struct world;

void harness_close_database(struct world *w);
void harness_close_kafka(struct world *w);

#endif
