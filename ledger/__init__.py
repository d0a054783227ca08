"""Which claim holds which device, and what is kept between two decisions. Pure."""
