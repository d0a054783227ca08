package main

import (
	"strings"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

func split(name, driver string) (string, string) {
	if domain, id, found := strings.Cut(name, "/"); found {
		return domain, id
	}
	return driver, name
}

func native(attribute resourceapi.DeviceAttribute) any {
	switch {
	case attribute.IntValue != nil:
		return *attribute.IntValue
	case attribute.BoolValue != nil:
		return *attribute.BoolValue
	case attribute.StringValue != nil:
		return *attribute.StringValue
	case attribute.VersionValue != nil:
		return apiservercel.Semver{Version: semver.MustParse(*attribute.VersionValue)}
	}
	return nil
}

func quantity(value resource.Quantity) any {
	return apiservercel.Quantity{Quantity: &value}
}
