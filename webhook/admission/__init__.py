"""Admission handlers: AdmissionReview bytes in, response bytes out.

The handlers define protocols for what they need from the cluster, and do no I/O of their own.
"""
