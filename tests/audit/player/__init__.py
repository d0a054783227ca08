"""A cluster that commands of a plan are typed on: it knows nothing of the models.

It reads objects, and what stands in the nodes. It keeps pods by name and devices by number, and
reads each command as kubectl does. A command that it does not know, that ends with an error or
never ends, and a device with two holders are errors.
"""
