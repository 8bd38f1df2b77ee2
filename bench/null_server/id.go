package main

import (
	"bytes"
	"encoding/binary"
	"io"
)

const (
	idTag      = 3<<3 | 2 // field 3, a string, in ModelInferRequest and ModelInferResponse
	idLookedAt = 256      // clients write the id at the beginning
)

// idInJSON returns the member "id":"..." that stands at the beginning of a body, or nothing.
func idInJSON(body io.Reader) []byte {
	var room [idLookedAt]byte
	count, _ := io.ReadFull(body, room[:])
	key := []byte(`"id":"`)
	begin := bytes.Index(room[:count], key)
	if begin < 0 {
		return nil
	}
	length := bytes.IndexByte(room[begin+len(key):count], '"')
	if length < 0 {
		return nil
	}
	return bytes.Clone(room[begin : begin+len(key)+length+1])
}

// idInMessage returns the field of the id, tag and length included, or nothing. Only the strings
// before it are walked over: the model's name and version.
func idInMessage(message []byte) []byte {
	for position := 0; position < len(message); {
		tag := message[position]
		length, size := binary.Uvarint(message[position+1:])
		end := position + 1 + size + int(length)
		if tag&7 != 2 || tag > idTag || size <= 0 || end > len(message) {
			return nil
		}
		if tag == idTag {
			return bytes.Clone(message[position:end])
		}
		position = end
	}
	return nil
}
