-- A job's record, without its texts. nil: there is none (a body put ahead of its submit is none yet).
local JOB_S, DONE_JOB_S, DONE_REPLY_S, CANCELLED_REPLY_S = 3600, 600, 60, 2
local function read(id)
  local v = call('HMGET', P .. 'job:' .. id, 'st', 'fence', 'n', 'model', 'lane', 'user', 'score', 'tag', 'due', 'arr',
    'cost', 'kv', 'prefill', 'long', 'inbox', 'entry', 'worker', 'backend', 'det', 'deadline', 'taken', 'fails', 'cancel', 'read',
    'inputs', 'left', 'left_until', 'timeout', 'able_until', 'base', 'prompt', 'splits', 'upto', 'had', 'near', 'behind')
  if not v[1] then
    return nil
  end
  return {
    id = id, key = P .. 'job:' .. id, st = v[1], fence = tonumber(v[2]), n = tonumber(v[3]), model = v[4], lane = v[5],
    user = v[6], score = tonumber(v[7]), tag = tonumber(v[8]), due = tonumber(v[9]), arr = tonumber(v[10]),
    cost = tonumber(v[11]), kv = tonumber(v[12]), prefill = tonumber(v[13]), long = tonumber(v[14]), inbox = v[15],
    entry = v[16] or '', worker = v[17] or '', backend = v[18] or '', det = v[19] == '1', deadline = tonumber(v[20]),
    taken = tonumber(v[21]), fails = tonumber(v[22]), cancel = v[23] or '', read = tonumber(v[24] or '0'),
    inputs = tonumber(v[25] or '0'), left = v[26] or '', left_until = tonumber(v[27] or '0'),
    timeout = tonumber(v[28] or '120000000'), able_until = tonumber(v[29] or '0'), base = v[30] or '',
    prompt = tonumber(v[31] or v[13]), splits = v[32] == '1', upto = tonumber(v[33] or '0'), had = tonumber(v[34] or '0'),
    near = v[35] or '', behind = v[36] or '',
  }
end
-- What a running job takes of its back end: of prefill, what was sent to be read and is not yet; for `fast`, nobody is to wait.
local function share(j)
  local had = j.had
  if j.read == j.fence then
    had = j.upto
  end
  local prefill = j.lane == 'fast' and 0 or j.upto - had
  return table.concat({
    int(j.kv), int(prefill), int(j.long), j.lane, int(j.arr), int(j.score), int(j.prompt), int(j.upto), int(had),
  }, ',')
end
