// Package main forwards connections from a unix socket in a pod to upstream's test program.
//
// Upstream's tests start `hostpathplugin` in a pod, with the options of the CSI driver of that name
// in its proxy mode. The kubelet connects to the unix socket, the test program to the port, by port
// forwarding and before it is needed. Each connection of the kubelet gets one of the test program.
package main

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"strings"
)

func main() {
	socket := flag.String("endpoint", "", "unix socket to which the kubelet connects")
	port := flag.String("proxy-endpoint", "", "where the test program connects, tcp://HOST:PORT")
	flag.Int("v", 0, "has no effect")
	flag.Parse()
	address, isTCP := strings.CutPrefix(*port, "tcp://")
	if *socket == "" || !isTCP {
		log.Fatalf("--endpoint=%q --proxy-endpoint=%q: a path and tcp://HOST:PORT are needed", *socket, *port)
	}
	log.Fatal(forward(strings.TrimPrefix(*socket, "unix://"), address))
}

// forward pairs connections until one of the listeners fails.
func forward(socket, address string) error {
	// A killed process leaves its socket.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	behind, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	front, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	for {
		client, err := front.Accept()
		if err != nil {
			return err
		}
		server, err := behind.Accept()
		if err != nil {
			return err
		}
		go join(client, server)
	}
}

// join copies in both directions; the end of either one ends both connections.
func join(client, server net.Conn) {
	ended := make(chan error, 2)
	copyTo := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		ended <- err
	}
	go copyTo(client, server)
	go copyTo(server, client)
	<-ended
	_ = client.Close()
	_ = server.Close()
}
