package ipmi

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode"

	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// fru is the data about the server in field replaceable unit 0, which the BMC is part of.
type fru struct{ manufacturer, model, serial string }

// area is an area of a FRU.
type area struct {
	fru

	record interface{ Unpack(data []byte) error }
	take   func() fru
}

// readFRU reads FRU 0 (Platform Management FRU Information Storage Definition 1.0). Missing and invalid fields are empty. The product
// area is preferred, because it describes the whole server, then the board area; for the serial number, the chassis area precedes the
// board area.
func (c *conn) readFRU(ctx context.Context) (fru, error) {
	const op = "Read the FRU"
	info := &storage.GetFRUInventoryAreaInfoResponse{}
	if err := c.do(ctx, op, &storage.GetFRUInventoryAreaInfoRequest{}, info); err != nil {
		return fru{}, ignoreOptional(err)
	}
	data, err := c.readFRUData(ctx, info, 0, int(types.FRUCommonHeaderSize))
	if err != nil {
		return fru{}, ignoreOptional(err)
	}
	header := &types.FRUCommonHeader{}
	if err := decode(op, func() error { return header.Unpack(data) }); err != nil || header.FormatVersion != types.FRUFormatVersion {
		return fru{}, nil //nolint:nilerr // it is empty, or has another format
	}
	var (
		product types.FRUProductInfoArea
		board   types.FRUBoardInfoArea
		chassis types.FRUChassisInfoArea
	)
	areas := []area{
		{record: &product, take: func() fru {
			return fru{
				text(product.ManufacturerTypeLength, product.Manufacturer), text(product.NameTypeLength, product.Name),
				text(product.SerialNumberTypeLength, product.SerialNumber),
			}
		}},
		{record: &board, take: func() fru {
			return fru{
				text(board.ManufacturerTypeLength, board.Manufacturer), text(board.ProductNameTypeLength, board.ProductName),
				text(board.SerialNumberTypeLength, board.SerialNumber),
			}
		}},
		{record: &chassis, take: func() fru { return fru{serial: text(chassis.SerialNumberTypeLength, chassis.SerialNumber)} }},
	}
	for i, offset := range []uint8{header.ProductOffset8B, header.BoardOffset8B, header.ChassisOffset8B} {
		if err := ignoreOptional(c.readArea(ctx, info, int(offset)*8, &areas[i])); err != nil {
			return fru{}, err
		}
	}
	return fru{
		manufacturer: cmp.Or(areas[0].manufacturer, areas[1].manufacturer),
		model:        cmp.Or(areas[0].model, areas[1].model),
		serial:       cmp.Or(areas[0].serial, areas[2].serial, areas[1].serial),
	}, nil
}

// readArea reads and decodes an area. An offset of 0 means that the area does not exist.
func (c *conn) readArea(ctx context.Context, info *storage.GetFRUInventoryAreaInfoResponse, offset int, a *area) error {
	const op = "Read the FRU"
	if offset == 0 || offset+2 > int(info.AreaSizeBytes) {
		return nil
	}
	start, err := c.readFRUData(ctx, info, offset, 8)
	if err != nil {
		return err
	}
	length := min(int(start[1])*8, int(info.AreaSizeBytes)-offset) // at most 2040
	if length < 8 {
		return nil
	}
	rest, err := c.readFRUData(ctx, info, offset+8, length-8)
	if err != nil {
		return err
	}
	// A truncated area has the fields before its end.
	err = decode(op, func() error {
		_ = a.record.Unpack(append(start, rest...))
		a.fru = a.take()
		return nil
	})
	return err
}

// maxRead is the number of bytes of a FRU that are read at once. Most BMCs return more. Every BMC returns at least minRead.
const (
	maxRead = 32
	minRead = 8
)

// readFRUData reads bytes of FRU 0 (IPMI 2.0, 34.2), in pieces that the BMC can return.
func (c *conn) readFRUData(ctx context.Context, info *storage.GetFRUInventoryAreaInfoResponse, offset, length int) ([]byte, error) {
	const op = "Read the FRU"
	unit := 1
	if info.DeviceAccessedByWords {
		unit = 2
	}
	if c.readSize == 0 {
		c.readSize = maxRead
	}
	var data []byte
	for len(data) < length {
		count := min(length-len(data), int(c.readSize))
		answer := &storage.ReadFRUDataResponse{}
		request := &storage.ReadFRUDataRequest{ReadOffset: uint16((offset + len(data)) / unit), ReadCount: uint8((count + unit - 1) / unit)} //nolint:gosec // an area ends below 4096
		err := c.do(ctx, op, request, answer)
		if code, ok := codeOf(err); ok && storage.ReadFRUDataLength2Big(code) && c.readSize > minRead {
			c.readSize /= 2
			continue
		}
		if err == nil && len(answer.Data) < min(count, minRead) {
			err = &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the BMC returned less data than requested")}
		}
		if err != nil {
			return nil, err
		}
		data = append(data, answer.Data[:min(len(answer.Data), count)]...)
	}
	return data, nil
}

// placeholder matches the values of fields that the manufacturer did not fill in.
var placeholder = regexp.MustCompile(`(?i)^(to be filled.*|default string|not specified|not available|none|n/?a|null|unknown|empty|[0x. -]*|0?123456789\w*)$`)

// text decodes a field. It removes characters that are not printable, because users see the text.
func text(kind types.TypeLength, raw []byte) string {
	var chars []byte
	err := decode("Read the FRU", func() (err error) {
		chars, err = kind.Chars(raw)
		return err
	})
	if err != nil {
		return ""
	}
	s := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, string(chars))
	s = strings.Join(strings.Fields(s), " ")
	if placeholder.MatchString(s) {
		return ""
	}
	return s
}
