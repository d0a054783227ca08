"""The certificate authority of the webhooks, and the certificates that each process signs with it.

The leading controller makes the CA, keeps it in one Secret, rotates it and injects it into the
webhook configurations. Every serving process reads the Secret and signs its own certificate in
memory. For the allocator, the leading controller signs.
"""
