// OpenAIRealtimeWS of `openai`: the `ws` package, the key in a header.

import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

import { job } from './common.mjs';
import { GA, talk } from './openai_talk.mjs';

const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: 'none' });
await talk(new OpenAIRealtimeWS({ model: job.model }, client), GA);
