# The image of the manager. iPXE's boot loaders come from Debian's package; mount a folder over /usr/lib/ipxe to use others. ipmitool is
# for hosts whose BMC address says so.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /manager ./cmd/manager

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates ipmitool ipxe && rm -rf /var/lib/apt/lists/*
COPY --from=build /manager /manager
ENTRYPOINT ["/manager"]
