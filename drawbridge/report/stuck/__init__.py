"""What is stuck: claims, pods and devices that nothing moves on, since when, and who holds them."""
