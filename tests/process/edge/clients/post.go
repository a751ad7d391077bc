// Posts batches with the HTTP client of Go: URL PREFIX LINES. Prints what went wrong.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

var client = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{ExpectContinueTimeout: 30 * time.Second},
}

func lines(prefix, way string, count int) []byte {
	var all bytes.Buffer
	for i := 0; i < count; i++ {
		fmt.Fprintf(&all, "{\"id\":\"%s/%s/%d\",\"fingerprint\":%d}\n", prefix, way, i, i)
	}
	return all.Bytes()
}

func post(url string, body io.Reader, expect bool) (int, error) {
	request, err := http.NewRequest("POST", url+"/v1/insert/batch", body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if expect {
		request.Header.Set("Expect", "100-continue")
	}
	reply, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return bytes.Count(text, []byte("\"outcome\":\"inserted\"")), err
}

func pieces(all []byte) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		for len(all) > 0 {
			piece := all
			if len(piece) > 8<<10 {
				piece = all[:8<<10]
			}
			if _, err := writer.Write(piece); err != nil {
				return
			}
			all = all[len(piece):]
		}
		writer.Close()
	}()
	return reader
}

func main() {
	url, prefix := os.Args[1], os.Args[2]
	count, _ := strconv.Atoi(os.Args[3])
	wrong := 0
	for _, way := range []string{"whole", "whole-expect", "pieces", "pieces-expect"} {
		all := lines(prefix, way, count)
		var body io.Reader = bytes.NewReader(all)
		if way[0] == 'p' {
			body = pieces(all)
		}
		stored, err := post(url, body, len(way) > 6)
		if err != nil || stored != count {
			fmt.Printf("%s: %d of %d stored, %v\n", way, stored, count, err)
			wrong++
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}
