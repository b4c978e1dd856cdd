# Ingest alone: the real dispatcher with roles = ingest, a real Kafka, a real Postgres.
add_library(ingest_case STATIC ingest_case.c)
target_link_libraries(ingest_case PRIVATE belfry_flags belfry_test_flags PUBLIC belfry_harness belfry_io)
function(belfry_ingest_cases stem)
    belfry_program(stage_ingest_${stem} SOURCES ingest_${stem}_test.c LINK ingest_case)
    add_dependencies(stage_ingest_${stem} belfry-dispatcher belfry-dispatcher-crash)
    foreach(case ${ARGN})
        belfry_test(foundation_5_${case} LABEL system PROGRAM stage_ingest_${stem} FILTER cases/${case}
            TIMEOUT 300 SERVICES)
    endforeach()
endfunction()

belfry_ingest_cases(poison ing_01 ing_03 ing_10 per_01)
belfry_test(stage_ingest_poison LABEL system PROGRAM stage_ingest_poison FILTER ingest/* TIMEOUT 300 SERVICES)
belfry_ingest_cases(persist per_03 per_05)
belfry_test(stage_ingest_a_slow_record LABEL system PROGRAM stage_ingest_persist
    FILTER ingest/a_slow_record_gets_more_time TIMEOUT 200 SERVICES)
belfry_test(dispatcher_1_missing_topic LABEL system PROGRAM stage_ingest_persist
    FILTER ingest/missing_topics_are_waited_for TIMEOUT 120 SERVICES)
belfry_test(dispatcher_1_fatal LABEL system PROGRAM stage_ingest_persist
    FILTER ingest/a_fenced_member_leaves_with_5 TIMEOUT 120 SERVICES)
belfry_program(stage_ingest_claim SOURCES ingest_claim_test.c LINK ingest_case)
add_dependencies(stage_ingest_claim belfry-dispatcher belfry-dispatcher-crash)
foreach(case clm_01 clm_04 clm_07)
    belfry_test(foundation_5_${case} LABEL system PROGRAM stage_ingest_claim FILTER cases/${case} TIMEOUT 300
        SERVICES)
endforeach()
belfry_test(foundation_2_fence LABEL system PROGRAM stage_ingest_claim FILTER cases/fence TIMEOUT 120 SERVICES)
belfry_program(stage_ingest_outage SOURCES ingest_outage_test.c LINK ingest_case)
add_dependencies(stage_ingest_outage belfry-dispatcher)
foreach(case an_idle_dispatcher_notices_the_database_go members_come_and_go a_stop_in_the_middle_of_a_statement)
    belfry_test(stage_ingest_${case} LABEL system PROGRAM stage_ingest_outage FILTER ingest/${case} TIMEOUT 300
        SERVICES)
endforeach()
belfry_test(dispatcher_1_brokers_away LABEL system PROGRAM stage_ingest_outage
    FILTER ingest/the_broker_goes_and_comes_back TIMEOUT 200 SERVICES)
belfry_test(dispatcher_1_second_signal LABEL system PROGRAM stage_ingest_outage
    FILTER ingest/a_second_signal_is_said TIMEOUT 120 SERVICES)
belfry_program(stage_ingest_group SOURCES ingest_group_test.c LINK ingest_case)
add_dependencies(stage_ingest_group belfry-dispatcher)
function(belfry_group name case timeout)
    belfry_test(dispatcher_1_${name} LABEL system PROGRAM stage_ingest_group FILTER group/${case}
        TIMEOUT ${timeout} SERVICES)
endfunction()
belfry_group(rebalance_range range_by_default 120)
belfry_group(rebalance_configured another_by_configuration 200)
belfry_group(static_membership a_static_member_comes_back_unnoticed 120)
belfry_group(revoked_is_dropped a_revoked_batch_is_dropped 120)
belfry_group(lost_commits_nothing a_lost_partition_commits_nothing 120)
belfry_group(prefetch prefetch_is_bounded 280)
