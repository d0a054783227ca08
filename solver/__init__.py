"""Which devices: claims of one pod on one node or many, solved as upstream would, or reasons."""
