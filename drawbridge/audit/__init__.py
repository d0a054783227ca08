"""What would happen to a cluster in a migration, and in which order. Pure.

`model` is what the audit says. `objects` is what it reads. `workloads` collects who asks for
devices, `servers` who serves them now, `node_groups` where. `predicted` is what the nodes publish
after the migration, `outcomes` what becomes of each workload, and `plan` the order of the steps.
`compose` puts them together, and `written_*` write them for a person.
"""
