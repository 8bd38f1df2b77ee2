-- 602 kB of zeros for the large model, by the binary tensor extension both ways
local bytes = 3 * 224 * 224 * 4
local document = '{"inputs":[{"name":"x","shape":[1,3,224,224],"datatype":"FP32",'
  .. '"parameters":{"binary_data_size":' .. bytes .. '}}],'
  .. '"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'

wrk.method = "POST"
wrk.path = "/v2/models/large/infer"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = tostring(#document)
wrk.body = document .. string.rep("\0", bytes)
