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
    belfry_test(stage_ingest_${stem} LABEL system PROGRAM stage_ingest_${stem} FILTER ingest/* TIMEOUT 300
        SERVICES)
endfunction()

belfry_ingest_cases(poison ing_01 ing_03 ing_10 per_01)
belfry_ingest_cases(persist per_03 per_05)
belfry_program(stage_ingest_claim SOURCES ingest_claim_test.c LINK ingest_case)
add_dependencies(stage_ingest_claim belfry-dispatcher belfry-dispatcher-crash)
foreach(case clm_01 clm_04 clm_07)
    belfry_test(foundation_5_${case} LABEL system PROGRAM stage_ingest_claim FILTER cases/${case} TIMEOUT 300
        SERVICES)
endforeach()
belfry_test(foundation_2_fence LABEL system PROGRAM stage_ingest_claim FILTER cases/fence TIMEOUT 120 SERVICES)
belfry_program(stage_ingest_outage SOURCES ingest_outage_test.c LINK ingest_case)
add_dependencies(stage_ingest_outage belfry-dispatcher)
foreach(case an_idle_dispatcher_notices_the_database_go members_come_and_go the_broker_goes_and_comes_back a_stop_in_the_middle_of_a_statement)
    belfry_test(stage_ingest_${case} LABEL system PROGRAM stage_ingest_outage FILTER ingest/${case} TIMEOUT 300
        SERVICES)
endforeach()
