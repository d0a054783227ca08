"""Admission handlers: AdmissionReview bytes in, response bytes out.

The handlers state what they need of the cluster as protocols and do no I/O of their own.
"""
